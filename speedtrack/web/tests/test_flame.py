"""The computation of a differential flame graph, and the pages that show it."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.alerts.triage import profiling
from speedtrack.runs.models import Profile, Reason, Run
from speedtrack.runs.results import results
from speedtrack.tests import builders, worlds
from speedtrack.web.drawing.charts import flame
from speedtrack.web.drawing.charts.flame import INSTRUCTIONS, Flame, Stacks
from speedtrack.web.tests.world import World, html_of, slowed

BASE, HEAD = (Stacks(builders.FOLDED[side], ns) for side, ns in (("base", 5000.0), ("head", 6000.0)))


def frames(drawing: Flame) -> dict[str, flame.Frame]:
    return {frame.name: frame for frame in drawing.frames}


def test_widths_are_those_of_the_head_and_colours_those_of_the_difference() -> None:
    shown = frames(Flame.of(BASE, HEAD))
    assert [shown[name].width for name in ("all", "read_[k]", "get", "count_keys")] == [
        "100.000%",
        "50.000%",
        "50.000%",
        "16.667%",
    ]
    # 600 of 1000 samples of 5000 ns, and 600 of 1200 of 6000 ns: the same 3000 ns, although the share fell.
    assert shown["read_[k]"].colour == "same"
    assert shown["count_keys"].colour == shown["get"].colour == "more3"
    assert "count_keys: after 16.7%, 1,000 ns; before 0.0%, 0 ns; +20.0%" in shown["count_keys"].title
    assert shown["get"].y < shown["count_keys"].y == 5 * flame.ROW + shown["all"].y


def test_without_cpu_times_shares_are_compared() -> None:
    shown = frames(Flame.of(Stacks(BASE.folded, None), HEAD))
    assert shown["read_[k]"].colour == "less2" and "ns" not in shown["read_[k]"].title


def test_a_graph_of_instructions_says_so_in_every_frame() -> None:
    shown = frames(Flame.of(BASE, HEAD, quantity=INSTRUCTIONS))
    title = shown["count_keys"].title
    assert "after 16.7%, 1,000 instructions; before 0.0%, 0 instructions" in title
    assert title.endswith("+20.0% of a request's instructions before")


def test_the_table_has_what_a_function_costs_itself_and_those_that_are_gone() -> None:
    table = Flame.of(HEAD, BASE).functions
    assert [(f.name, f.difference, f.is_slowdown) for f in table[:1]] == [("count_keys", "−1,000 (−16.7%)", False)]
    assert (table[0].before, table[0].after) == ("1,000", "0")


def test_the_table_leaves_out_what_the_noise_of_the_samples_explains() -> None:
    base, head = "all;a 500\nall;b 6\nall;c 300\n", "all;a 500\nall;b 12\nall;c 400\n"
    sampled = Flame.of(Stacks(base, 806.0), Stacks(head, 912.0))
    assert ([function.name for function in sampled.functions], sampled.function_count) == (["c"], 3)
    counted = Flame.of(Stacks(base, 806.0), Stacks(head, 912.0), quantity=INSTRUCTIONS)
    assert [function.name for function in counted.functions] == ["c", "b"]


def test_zoomed_in_a_frame_fills_the_width_below_its_callers() -> None:
    number = int(frames(Flame.of(BASE, HEAD))["get"].number)
    zoomed = Flame.of(BASE, HEAD, number)
    shown = frames(zoomed)
    assert zoomed.zoomed == "get" and "read_[k]" not in shown
    assert shown["serve"].width == shown["get"].width == "100.000%" and shown["count_keys"].width == "33.333%"


@pytest.mark.parametrize("number", [99, 10**8])
def test_a_frame_that_does_not_exist_shows_the_whole(number: int) -> None:
    assert Flame.of(BASE, HEAD, number) == Flame.of(BASE, HEAD)


def test_deep_and_wide_stacks_are_bounded() -> None:
    deep = ";".join(f"f{i}" for i in range(120)) + " 5\n"
    wide = "".join(f"wide;g{i} 5\n" for i in range(4000))
    drawing = Flame.of(Stacks(deep, 1.0), Stacks(deep * 800 + wide, 1.0))
    assert len(drawing.frames) <= flame.MOST_FRAMES + 1
    assert drawing.height <= (flame.MOST_ROWS + 1) * flame.ROW


def test_profiles_without_a_sample_are_an_empty_drawing() -> None:
    assert [frame.name for frame in Flame.of(Stacks("", 1.0), Stacks("", 1.0)).frames] == ["all"]


@worlds.shared
def profiled(settings: Any, directory: Path) -> tuple[World, Alert]:
    made, alert = slowed(settings, directory)
    profiling.plan_missing_profiles()
    return made, alert


def section(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    found = re.search(r'<section id="profiles">.*?</section>', html_of(answer))
    assert found
    return found[0]


def test_the_alert_shows_the_graph_once_it_is_there(client: Client, profiled: tuple[World, Alert]) -> None:
    made, alert = profiled
    address = f"/alerts/{alert.pk}/"
    assert "is queued on" in section(client, address)
    made.measure()
    page = section(client, address)
    assert page.count("<title>") == 14 and 'class="more3"' in page and "style" not in page
    zoom = re.search(r'href="(\?zoom=[^"]*)#profiles" aria-label="get:', page)
    assert zoom
    assert "Whole graph" in section(client, address + zoom[1])
    run = Run.objects.get(reason=Reason.PROFILE)
    assert section(client, f"/runs/{run.pk}/").count("<title>") == 14
    head = Profile.objects.filter(side="head", attempt__run=run)[0]
    assert client.get(f"/profiles/{head.pk}.folded").content.decode() == builders.FOLDED["head"]
    assert client.get("/profiles/0.folded").status_code == 404


def send_instructions(run: Run, made: World, alert: Alert, **changes: Any) -> None:
    for commit in (alert.before, alert.commit):
        for name in builders.measured(run):
            counted = {"kind": "instructions", "event": "instructions", "frequency_hz": 0, "cpu_ns_per_request": None}
            builders.send_profile(run, name, commit, **counted | changes)


def test_counted_instructions_have_a_graph_of_their_own_that_says_what_it_is_made_of(
    client: Client, profiled: tuple[World, Alert]
) -> None:
    made, alert = profiled
    run = builders.claim(made.machines[0])
    send_instructions(run, made, alert)
    for commit in (alert.before, alert.commit):
        for name in builders.measured(run):
            builders.send_profile(run, name, commit, samples=0, folded="", unavailable="perf may not sample")
    builders.queue.complete(run.machine, run.pk, run.lease_token)
    page = section(client, f"/alerts/{alert.pk}/")
    assert "get-p1, CPU time" in flat(page) and "Not available here: perf may not sample" in page
    assert "get-p1, instructions" in flat(page) and page.count("data-flame") == 2
    assert "12.0 instructions per request after, 10.0 before, counted by valgrind, not sampled" in flat(page)
    assert "more instructions than before" in flat(page) and "samples of" not in page
    zoom = re.search(r'href="(\?zoom=[^"]*)#profiles" aria-label="get:', page)
    assert zoom and "instructions" in zoom[1]
    assert "Whole graph" in section(client, f"/alerts/{alert.pk}/{zoom[1]}")


def test_the_same_profile_again_changes_nothing_and_one_of_the_other_kind_is_another(
    profiled: tuple[World, Alert],
) -> None:
    made, alert = profiled
    run = builders.claim(made.machines[0])
    for _ in range(2):
        send_instructions(run, made, alert)
        for commit in (alert.before, alert.commit):
            builders.send_profile(run, "get-p1", commit)
    assert Profile.objects.filter(attempt__run=run).count() == 6
    with pytest.raises(results.Contradiction, match="another profile of get-p1"):
        send_instructions(run, made, alert, samples=5)


def flat(page: str) -> str:
    """The text of a page, with its blanks as a browser shows them."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_why_there_is_no_profile_is_shown(client: Client, profiled: tuple[World, Alert]) -> None:
    made, alert = profiled
    run = builders.claim(made.machines[0])
    for commit in (alert.before, alert.commit):
        for name in builders.measured(run):
            builders.send_profile(
                run,
                name,
                commit,
                samples=0,
                folded="",
                cpu_ns_per_request=None,
                unavailable="perf is <not> here: install it",
            )
    builders.queue.complete(run.machine, run.pk, run.lease_token)
    page = section(client, f"/alerts/{alert.pk}/")
    assert "Not available here: perf is &lt;not&gt; here: install it" in page and "<svg" not in page
