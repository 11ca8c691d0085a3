"""Benchmarks to choose from."""

import pytest

from speedtrack.web.addresses import timeline_path
from speedtrack.web.pages.compare.page import PairedChoice
from speedtrack.web.templatetags import choices

NAMES = ["get p1", "a&b", "<i>", "über/x?", "100%", "~@:+"]


@pytest.mark.parametrize("name", NAMES)
def test_the_address_of_an_option_is_that_of_the_timeline(name: str) -> None:
    shown = choices.option(timeline_path("kvd", name.replace("/", ""), "time"), name.replace("/", ""), True)
    assert choices.timeline_options("kvd", "time", [name.replace("/", "")], name.replace("/", "")) == shown


def test_what_was_chosen_is_selected_and_names_are_text() -> None:
    assert choices.name_options(["a", "<b>"], "<b>") == (
        '<option value="a">a</option><option value="&lt;b&gt;" selected>&lt;b&gt;</option>'
    )
    assert choices.name_options(["a", "b"], ["a", "b"]).count("selected") == 2
    ticks = choices.benchmark_ticks([PairedChoice("<a>", True), PairedChoice("b", False)])
    assert ticks.count("checked") == 1 and "> &lt;a&gt;</label>" in ticks
