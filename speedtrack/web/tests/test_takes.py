"""What it would take to see smaller changes: the page, its JSON, and one press into the suite."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.accounts import tokens
from speedtrack.accounts.models import AuditEntry, Scope
from speedtrack.alerts.detection import detection
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.reports.evidence import two_digits
from speedtrack.runs.models import Measurement
from speedtrack.tests import builders, worlds
from speedtrack.web.tests.world import CPU, World, html_of, measured, queries

TRIALS, RUNS = f"/p/kvd/timeline/get-p1/{CPU}/takes", f"/p/kvd/timeline/set-p1/{CPU}/takes"


def scattered(made: World) -> World:
    """Forty commits: the trials of get-p1 scatter by 12%, the runs of set-p1 differ by a tenth."""
    rng = random.Random(4)
    level: dict[tuple[str, str], float] = {}

    def speed(sha: str, benchmark: str, trial: int) -> float:
        of_runs, of_trials = (0.0, 0.12) if benchmark == "get-p1" else (0.1, 0.02)
        return level.setdefault((sha, benchmark), 5000 * rng.gauss(1, of_runs)) * rng.gauss(1, of_trials)

    made.push(40)
    builders.work(made.machines[0], speed)
    detection.detect()
    return made


@worlds.shared
def scattered_trials(settings: Any, directory: Path) -> World:
    return scattered(measured(settings, directory))


@pytest.fixture
def operator(client: Client, scattered_trials: World) -> Client:
    client.force_login(User.objects.create_superuser("ada"))
    return client


def test_trials_average_their_own_noise_away_and_that_of_runs_not(client: Client, scattered_trials: World) -> None:
    document = client.get(f"{TRIALS}.json").json()
    assert (document["schema"], document["trials"], document["suite_trials"]) == ("speedtrack.takes/1", 5, 5)
    counts = [take["trials"] for take in document["takes"]]
    assert len(counts) > 5 and counts == sorted(counts) and counts[-1] > 20
    sizes = [take["see"] for take in document["takes"]]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] <= document["smallest"]
    half = min(document["takes"], key=lambda take: abs(take["see"] - document["smallest"] / 2))
    assert 12 <= half["trials"] <= 30  # four times five, if runs did not differ at all
    assert re.match(
        rf"{half['trials']} trials instead of 5 \(×[0-9.]+\): .* more per commit, .* a day", half["sentence"]
    )
    other = client.get(f"{RUNS}.json").json()
    assert other["limit"] > 0.8 * other["smallest"]
    assert other["takes"][-1]["trials"] is None
    assert re.match(
        r"No number of trials sees less than [0-9.]+% here, as runs differ by [0-9.]+% whatever their trials; pairs do",
        other["takes"][-1]["sentence"],
    )


def test_the_cost_is_that_of_the_trials_that_the_machine_took(client: Client, scattered_trials: World) -> None:
    """All benchmarks of the suite get the trials: each has five now, so more of them take so much longer."""
    document = client.get(f"{TRIALS}.json").json()
    for take in document["takes"]:
        assert take["seconds_a_day"] == pytest.approx(take["seconds"] * document["commits_a_day"])
    per_trial = {round(take["seconds"] / (take["trials"] - 5), 6) for take in document["takes"] if take["trials"] > 5}
    assert len(per_trial) == 1 and per_trial.pop() > 0


def test_one_press_puts_the_trials_into_the_suite(operator: Client, scattered_trials: World) -> None:
    page = html_of(operator.get(f"{TRIALS}/?machine=kvd-m1"))
    shown = re.search(r'<li data-see="[0-9.]+" data-words="[0-9.]+%"> <p>(.*?)</p>', page)
    assert shown and "trials instead of 5" in shown[1]
    pressed = {"trials": shown[1].split()[0], "seen": re.findall(r'name="seen" value="([^"]*)"', page)[0]}
    tried = html_of(operator.post(f"{TRIALS}/", pressed | {"preview": "1"}, follow=True))
    assert "Nothing was done" in tried and load_suite("tiny").trials == 5
    assert not AuditEntry.objects.filter(action="suite.save").exists()
    saved = html_of(operator.post(f"{TRIALS}/", pressed, follow=True))
    assert f"with {pressed['trials']} trials instead of 5" in saved and "To undo it, restore" in saved
    assert load_suite("tiny").trials == int(pressed["trials"])
    entry = AuditEntry.objects.get(action="suite.save")
    assert (entry.target, entry.changes["trials"]) == ("tiny", [5, int(pressed["trials"])])
    assert f"The suite tiny has {pressed['trials']} trials" in saved
    stale = html_of(operator.post(f"{TRIALS}/", pressed | {"trials": "30"}, follow=True))
    assert "has changed this suite meanwhile" in stale and load_suite("tiny").trials == int(pressed["trials"])


def test_the_next_commits_have_the_trials_and_their_line_goes_on(operator: Client, scattered_trials: World) -> None:
    operator.post(f"{TRIALS}/", {"trials": "12"})
    (sha,) = scattered_trials.push(1)
    scattered_trials.measure()
    points = Measurement.objects.filter(series__metric=CPU, series__benchmark__name="get-p1")
    assert points.get(commit__sha=sha).n == 12
    assert points.values("series").distinct().count() == 1


@pytest.mark.parametrize("trials", ["", "4", "1001", "x", "5"])
def test_other_numbers_are_refused(operator: Client, scattered_trials: World, trials: str) -> None:
    assert "Not saved" in html_of(operator.post(f"{TRIALS}/", {"trials": trials}, follow=True))
    assert load_suite("tiny").trials == 5


def test_programs_set_them_too_or_try(client: Client, kvd: World) -> None:
    token = tokens.issue(User.objects.create_superuser("ada"), "ci", tuple(Scope), days=None)[1]
    headers = {"Authorization": f"Bearer {token}"}

    def put(name: str, **body: object) -> tuple[int, dict[str, object]]:
        path = f"/api/v1/suites/{name}/trials"
        answer = client.put(path, body, "application/json", headers=headers)
        return answer.status_code, answer.json()

    status, tried = put("tiny", trials=20, dry_run=True)
    assert (status, tried["dry_run"], load_suite("tiny").trials) == (200, True, 5)
    assert put("tiny", trials=20)[0] == 200 and load_suite("tiny").trials == 20
    assert put("tiny", trials=20)[0] == 409
    assert put("tiny", trials=3)[0] == 422
    assert put("none", trials=20)[0] == 404


def test_the_address_chooses_the_change(client: Client, scattered_trials: World) -> None:
    for see in ("6", "6.2", "nan", "", "x", "-1e9"):
        page = html_of(client.get(f"{TRIALS}/?machine=kvd-m1&see={see}"))
        assert page.count("<li data-see") - page.count("hidden> <p>") == 1
        value = float(re.findall(r'value="([0-9.]+)" aria-valuetext', page)[0])
        assert value == pytest.approx(6, abs=0.5) if see.startswith("6") else value > 0
        assert "Operators can put" in page and 'method="post"' not in page.partition("<main")[2]


def test_a_line_whose_noise_is_not_known_says_so(client: Client, kvd: World) -> None:
    assert "It is not known" in html_of(client.get(f"{TRIALS}/"))
    assert client.get(f"{TRIALS}.json").status_code == 404
    assert client.get(f"/p/kvd/timeline/none/{CPU}/takes/").status_code == 404


def test_pages_that_say_what_is_seen_lead_here(client: Client, scattered_trials: World) -> None:
    for page in ("/p/kvd/sensitivity/", f"/p/kvd/timeline/get-p1/{CPU}"):
        assert f'href="{TRIALS}/?machine=kvd-m1"' in html_of(client.get(page))
    assert queries(client, f"{TRIALS}/") <= 20


@pytest.mark.parametrize(("number", "words"), [(3.84, "3.8"), (0.5, "0.5"), (120.8, "120"), (10_900, "11,000")])
def test_numbers_of_two_digits_have_no_exponent(number: float, words: str) -> None:
    assert two_digits(number) == words
