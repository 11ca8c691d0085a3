"""The address of the server: the runner takes what the server takes for its own, and spells it in the same way."""

import json
from pathlib import Path

import pytest

from runners.errors import SettingsError
from runners.reporting.address import read_address

KNOWN = json.loads((Path(__file__).parents[3] / "speedtrack/tests/server_addresses.json").read_text())


@pytest.mark.parametrize("text", KNOWN["spelt"])
def test_an_address_is_spelt_as_the_server_spells_it(text: str) -> None:
    assert read_address("SPEEDTRACK_URL", text) == KNOWN["spelt"][text]


@pytest.mark.parametrize("text", KNOWN["refused"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        read_address("SPEEDTRACK_URL", text)
    sentence = str(refusal.value)
    assert sentence.startswith("SPEEDTRACK_URL ") and KNOWN["refused"][text] in sentence, sentence
    assert "planted" not in sentence and "\n" not in sentence
