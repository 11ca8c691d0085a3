"""All surfaces say the same of the same two sides, and what is void has no colour anywhere."""

import json
import re
from random import Random
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client
from speedtrack_client import gates

from speedtrack.accounts.access import ANYBODY, Access
from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.judging import evidence
from speedtrack.judging.evidence import TwoSides
from speedtrack.judging.judge import judge
from speedtrack.judging.neighbours import judge_neighbours
from speedtrack.judging.seriescolumns import series_of_commits
from speedtrack.judging.summaries import State, Summary
from speedtrack.judging.verdicts import Basis, Ruling
from speedtrack.notices import mail
from speedtrack.notices.channels import statuses
from speedtrack.notices.models import Channel, CommitStatus, Outbox
from speedtrack.projects.models import Tag
from speedtrack.runs.models import Build, Machine, Measurement, PairedComparison, Run, Samples, Series
from speedtrack.tests import builders
from speedtrack.tests.comparisons import change_comparisons
from speedtrack.web.pages.sharing import badges, cards
from speedtrack.web.tests.test_mine import mine, offered
from speedtrack.web.tests.world import CPU, World, counted, html_of

COLOURED = re.compile(r'class="(number )?(change|answer|delta) (worse|better)"')


def release(made: World, **places: int) -> None:
    Tag.objects.bulk_create(
        Tag(project=made.project, name=name.replace("_", "."), sha=made.shas[place]) for name, place in places.items()
    )


def flag(made: World, place: int, factor: float = 1.0, **filters: Any) -> None:
    """Flag all trials of a commit, and multiply its values, as if detection had compared them."""
    points = Measurement.objects.filter(commit=made.commit(place), paired=False, **filters)
    for point in points:
        samples = Samples.objects.get(measurement=point)
        values = [value and value * factor for value in samples.values]
        Samples.objects.filter(pk=point.pk).update(values=values, flagged=list(range(len(values))))
        ends = {name: getattr(point, name) * factor for name in ("value", "low", "high")}
        Measurement.objects.filter(pk=point.pk).update(flags=["steal"], **ends)
        answer = "same" if factor == 1 else "different"
        changes = {"ratio": factor, "low": factor, "high": factor, "answer": answer}
        change_comparisons(point.commit, point.series_id, **changes)


def read(client: Client, address: str, **query: Any) -> Any:
    return json.loads(client.get(address, query).content)


def api_rows(client: Client, made: World, base: int, head: int) -> list[dict[str, Any]]:
    """The rows of the API, as the client gets them."""
    answer = read(client, "/api/v1/projects/kvd/compare", base=made.shas[base], head=made.shas[head])
    return [{**row, "machine": answer["machine"]} for row in answer["rows"]]


def verdicts_by_surface(client: Client, made: World, base: int, head: int) -> dict[str, str]:
    """What each surface says of the CPU of get-p1 at two neighbouring commits, which are the only two releases."""
    ends = {"base": made.shas[base], "head": made.shas[head]}
    own = {"benchmark": "get-p1", "metric": CPU}

    def of(rows: list[dict[str, Any]], key: str = "verdict") -> str:
        (row,) = [row for row in rows if all(row.get(name, value) == value for name, value in own.items())]
        return str(row[key])

    releases = read(client, "/p/kvd/releases.json", metric=CPU)
    (table,) = [table for table in releases["benchmarks"] if table["name"] == "get-p1"]
    (grid_row,) = [row for row in read(client, "/p/kvd.json", metric=CPU)["benchmarks"] if row["name"] == "get-p1"]
    return {
        "compare": of(read(client, "/p/kvd/compare.json", **ends)["rows"]),
        "api": of(api_rows(client, made, base, head)),
        "commit": of(read(client, f"/p/kvd/c/{made.shas[head]}.json")["results"]),
        "releases": table["releases"][-1]["against"][0]["verdict"],
        "grid of commits": grid_row["looks"][head].split("-")[0],
        "grid of releases": grid_row["release_looks"][-1].split("-")[0],
    }


def test_the_surfaces_agree_on_a_slowdown(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    release(made, v1_0=4, v1_1=5)
    assert set(verdicts_by_surface(client, made, 4, 5).values()) == {"worse"}
    (card,) = read(client, "/home.json")["projects"]
    totals = {
        total["metric"]: total for total in read(client, "/p/kvd/compare.json", base="v1.0", head="v1.1")["totals"]
    }
    compared = totals[CPU]
    assert card["last_release"]["verdict"] == compared["verdict"] == "worse"
    assert card["last_release"]["ratio"] == pytest.approx(compared["mean_ratio"][0])
    assert (card["last_release"]["series"], card["last_release"]["of"]) == (2, 2)
    page = html_of(client.get("/p/kvd/releases/"))
    low, high = compared["mean_ratio"][1:]
    assert card["last_release"]["low"] == pytest.approx(low) and card["last_release"]["high"] == pytest.approx(high)
    assert '<span class="change worse" title="slower, of 2 benchmarks">! +20.' in page
    assert "v1.1: slower, +20." in client.get("/p/kvd/releases.atom").content.decode()
    picture = cards.compare_card("kvd", QueryDict("base=v1.0&head=v1.1"), Access(ANYBODY))
    assert (picture.look, picture.fact[:4]) == ("worse", "+20.")
    assert "slower +20." in mail.subject_of(alert)
    rows = [row for row in api_rows(client, made, 4, 5) if row["metric"] == CPU]
    assert {row["verdict"] for row in gates.regressions(rows, 3.0)} == {"worse"} and len(rows) == 2


def test_all_surfaces_write_the_change_alike(client: Client, slow: tuple[World, Alert]) -> None:
    """Pages, mail, feeds, card, badge and the client's Markdown have one sign, one word and one number."""
    made, alert = slow
    (change, *_) = sorted(alert.change_points.all(), key=lambda cp: cp.rank)
    text = numbers.change(change.ratio)
    row = Outbox.objects.create(recipient="ada@example.org", alert=alert, event="raised")
    mailed, _ = mail.alert_message(row).alternatives[0]
    assert f"! Slower {text}</strong>" in " ".join(str(mailed).split())
    assert f"slower {text}" in client.get("/p/kvd/alerts.atom").content.decode()
    assert f"Slower {text}" in client.get("/p/kvd/changes.atom").content.decode()
    assert cards.alert_card(alert.pk).fact.startswith(f"slower {text}")
    for page in ("/", "/p/kvd/", f"/alerts/{alert.pk}/", f"/p/kvd/c/{made.shas[5]}/"):
        assert f"slower {text}" in html_of(client.get(page)), page
    rows = [row for row in api_rows(client, made, 4, 5) if row["metric"] == CPU]
    note = gates.summary({"project": "kvd", "id": 1}, rows, gates.gate_of(rows, 3.0), "https://example.org")
    for row in rows:
        assert (
            f"| {numbers.change(row['ratio'])} | {numbers.change_interval(row['ratio'], row['low'], row['high'])} |"
            in note
        )


def sentences(client: Client, made: World, place: int) -> dict[str, str]:
    """By face: what it says of a commit, which the one before it is the base of."""
    sha, own = made.shas[place], made.commit(place)
    title = re.compile(r'class="verdictline [a-z]+"> ?<strong>(.*?)</strong>')
    ends = {"base": made.shas[place - 1], "head": sha}
    comparison = read(client, "/api/v1/projects/kvd/compare", **ends)
    note = gates.summary(comparison, api_rows(client, made, place - 1, place), None, "https://example.org")
    feed = client.get("/p/kvd/changes.atom").content.decode()
    return {
        "commit page": title.findall(html_of(client.get(f"/p/kvd/c/{sha}/")))[0],
        "commit page's document": read(client, f"/p/kvd/c/{sha}.json")["summary"],
        "commit in the API": read(client, f"/api/v1/projects/kvd/commits/{sha}")["summary"],
        "compare page": title.findall(html_of(client.get("/p/kvd/compare/", ends)))[0],
        "comparison in the API": comparison["summary"],
        "client": gates.answer(comparison, comparison["rows"], None),
        "client's Markdown": note.partition("\n")[0].removeprefix("### SpeedTrack: "),
        "feed of changes": re.findall(r"<entry>\s*<title>(.*?)</title>", feed)[0],
        "status at a forge": statuses.state_of(CommitStatus(channel=Channel(project=made.project), commit=own))[1],
    }


def test_all_faces_say_one_sentence_of_a_commit(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    assert set(sentences(client, made, 5).values()) == {"Slower +20.1%: get-p1 and 1 more, confirmed"}
    calm = sentences(client, made, 3)
    calm.pop("feed of changes")  # it tells of the commit that changed something
    of_sides = {calm.pop(face) for face in ("compare page", "comparison in the API", "client", "client's Markdown")}
    assert of_sides == {"No change in 2 benchmarks"}
    assert set(calm.values()) == {"No change in 2 benchmarks; 3.1% or more would be seen within 4 commits"}


def test_all_faces_say_one_sentence_of_a_pull_request(kvd: World) -> None:
    ada, sha = offered(kvd)
    kvd.slow.add(sha)
    kvd.measure()
    run = Run.objects.get(commit__sha=sha)
    asked = PairedComparison.objects.create(
        project=kvd.project, head_name=sha, base_name="main", head=run.commit, base=run.base, planned_at=run.created
    )
    asked.runs.add(run)
    faces = {
        "my pushes": mine(ada)[0][1],
        "pull requests' page": re.findall(r'verdictline worse"> ?<strong>(.*?)<', html_of(ada.get("/p/kvd/pulls/")))[0],
        "API": read(ada, f"/api/v1/projects/kvd/comparisons/{asked.pk}")["summary"],
    }
    assert set(faces.values()) == {"Slower +19.9%: set-p1 and 1 more, by pairs"}


def test_a_sentence_is_cut_at_a_word_within_the_limit_of_a_forge() -> None:
    name = "a-benchmark-with-a-very-long-name-that-somebody-gave-it"
    summary = Summary(State.WORSE, f"Slower +20.1%: {name} and 1 more; faster −5.0%: {name}, confirmed, fixed since")
    assert summary.within(140) == f"Slower +20.1%: {name} and 1 more; faster −5.0%: …"
    assert summary.within(255) == summary.sentence


@pytest.mark.parametrize("state", ["expected", "fixed"])
def test_a_settled_alert_is_red_nowhere(client: Client, slow: tuple[World, Alert], state: str) -> None:
    made, alert = slow
    coloured = re.compile(r'class="(sign )?worse[" ]|badge confirmed"|>! 1 open|cell worse-2 change')
    places = ("/", "/p/kvd/", f"/p/kvd/timeline/get-p1/{CPU}", f"/p/kvd/c/{made.shas[5]}/")
    body = re.compile(r"<main.*?</main>")

    def reds() -> list[int]:
        pages = [body.findall(html_of(client.get(place)))[0].partition('class="legend')[0] for place in places]
        return [len(coloured.findall(page)) for page in pages]

    assert all(reds())
    Alert.objects.update(status=state)
    assert reds() == [0, 0, 0, 0]
    badge = badges.load(made.project, "alerts")
    assert (badge.message, badge.look) == ("none", badges.GOOD)
    assert cards.alert_card(alert.pk).look == "settled"
    (change,) = {change["look"] for change in read(client, f"/p/kvd/timeline/get-p1/{CPU}.json")["changes"]}
    assert change == "settled"


def test_what_a_person_called_invalid_differs_nowhere(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    release(made, v1_0=4, v1_1=5)
    assert set(verdicts_by_surface(client, made, 4, 5).values()) == {"worse"}
    Alert.objects.update(status="invalid")
    verdicts = verdicts_by_surface(client, made, 4, 5)
    assert verdicts["compare"] == verdicts["api"] == verdicts["commit"] == verdicts["releases"] == "uncertain"
    assert {verdicts["grid of commits"], verdicts["grid of releases"]} == {"same", "same change"}
    rows = [row for row in api_rows(client, made, 4, 5) if row["metric"] == CPU]
    assert not gates.regressions(rows, 3.0)
    ends = {"base": made.shas[4], "head": made.shas[5]}
    assert read(client, "/api/v1/projects/kvd/compare", **ends)["summary"] == "No change in 2 benchmarks"
    of_commit = "No change in 2 benchmarks; 3.1% or more would be seen within 4 commits"
    assert read(client, f"/p/kvd/c/{made.shas[5]}.json")["summary"] == of_commit


def on_another(made: World, name: str, place: int, count: int) -> None:
    """Give a commit ``count`` results of another machine, in copies of a series with other metrics."""
    machine, _ = Machine.objects.get_or_create(name=name)
    point = Measurement.objects.filter(commit=made.commit(place), paired=False, series__metric=CPU).order_by("pk")[0]
    attempt, run = point.attempt, point.attempt.run
    run.pk, run.machine = None, machine
    run.save()
    attempt.pk, attempt.run = None, run
    attempt.save()
    for metric in [*METRICS][:count]:
        names = {"project": made.project, "benchmark": point.series.benchmark, "environment": point.series.environment}
        series, _ = Series.objects.get_or_create(machine=machine, metric=metric, **names)
        point.pk, point.series, point.attempt = None, series, attempt
        point.save()


def test_page_and_api_choose_the_machine_with_most_to_compare(client: Client, kvd: World) -> None:
    """Of both sides: however much a machine measured of one of them, only what it measured of both is compared."""
    on_another(kvd, "a-busy-one", 0, 12)
    on_another(kvd, "a-busy-one", 3, 1)
    ends = {"base": kvd.shas[0], "head": kvd.shas[3]}
    page, api = read(client, "/p/kvd/compare.json", **ends), read(client, "/api/v1/projects/kvd/compare", **ends)
    assert page["machine"] == api["machine"] == "kvd-m1" and len(page["rows"]) == len(api["rows"]) == 4


def test_a_gate_on_a_named_machine_does_not_pass_on_another(client: Client, kvd: World) -> None:
    """The page shows what another machine measured, and says so; a program has asked for this one."""
    on_another(kvd, "a-busy-one", 0, 12)
    ends = {"base": kvd.shas[0], "head": kvd.shas[3], "machine": "a-busy-one"}
    page, api = read(client, "/p/kvd/compare.json", **ends), read(client, "/api/v1/projects/kvd/compare", **ends)
    assert page["machine"] == "kvd-m1" and "a-busy-one has not measured the head" in page["notes"][0]
    assert api["machine"] is api["head_side"]["machine"] is None and api["base_side"]["machine"] == "a-busy-one"
    assert api["rows"] == [] and len(api["only_base"]) == 12


def test_the_surfaces_agree_on_generated_values(client: Client, kvd: World) -> None:
    """Commits of any speed: whatever the judge says of two neighbours, all surfaces say it."""
    random = Random(28)
    factors: dict[str, float] = {}

    def speed(sha: str, benchmark: str, trial: int) -> float:
        factor = factors.setdefault(f"{sha} {benchmark}", random.choice([0.08, 0.49, 0.97, 1.0, 1.0, 1.03, 2.1, 12.0]))
        return kvd.speed(sha, benchmark, trial) * factor * random.gauss(1, 0.01)

    first = len(kvd.shas)
    kvd.push(5)
    builders.work(kvd.machines[0], speed)
    detection.detect()
    for base in range(first, first + 4):
        Tag.objects.all().delete()
        release(kvd, v1_0=base, v1_1=base + 1)
        said = verdicts_by_surface(client, kvd, base, base + 1)
        marks = {said.pop("grid of commits"), said.pop("grid of releases")}
        (verdict,) = set(said.values())
        assert verdict in ("worse", "better") or marks <= {"same"}


def test_the_badge_of_new_commits_is_that_of_the_comparison(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    release(made, v1_0=4)
    badge = badges.load(made.project, "release")
    (card,) = read(client, "/home.json")["projects"]
    assert (badge.label, badge.look) == ("since v1.0", badges.BAD) and badge.message.startswith("! +20.")
    assert card["since_release"]["verdict"] == "worse"
    total = next(
        t for t in read(client, "/p/kvd/compare.json", base="v1.0", head="main")["totals"] if t["metric"] == CPU
    )
    assert total["mean_ratio"][0] == pytest.approx(card["since_release"]["ratio"])


@pytest.mark.parametrize("many", [0, evidence.MANY])
def test_a_flagged_side_is_flagged_everywhere_and_fails_no_gate(
    client: Client, kvd: World, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit ten times as slow in trials that other work disturbed, whether flags are read by commit or by series."""
    monkeypatch.setattr(evidence, "MANY", many)
    flag(kvd, 3, 10.73)
    kvd.measure()
    rows = api_rows(client, kvd, 2, 3)
    assert {row["verdict"] for row in rows} == {"flagged"}
    gate = gates.gate_of(rows, 3.0)
    assert gate and gate["regressions"] == [] and not gate["passed"], "nothing that can be trusted was measured"
    page = html_of(client.get("/p/kvd/compare/", {"base": kvd.shas[2], "head": kvd.shas[3]}))
    assert "×10.7" in page and not COLOURED.search(page)
    commit = html_of(client.get(f"/p/kvd/c/{kvd.shas[3]}/"))
    assert not COLOURED.search(commit)
    totals = read(client, "/p/kvd/compare.json", base=kvd.shas[2], head=kvd.shas[3])["totals"]
    assert all(total["mean_ratio"] is None and total["verdict"] == "flagged" for total in totals)


def test_one_flagged_trial_makes_no_total(client: Client, kvd: World) -> None:
    """One of two benchmarks fell to 0.41 in trials with a flag: the total is that of the other one."""
    flag(kvd, 3, 0.41, series__benchmark__name="get-p1")
    totals = read(client, "/p/kvd/compare.json", base=kvd.shas[2], head=kvd.shas[3])["totals"]
    cpu = next(total for total in totals if total["metric"] == CPU)
    assert (cpu["benchmarks"], cpu["benchmarks_in_all"]) == (1, 2)
    assert cpu["mean_ratio"][0] == pytest.approx(1.0, abs=0.01)
    page = html_of(client.get("/p/kvd/compare/", {"base": kvd.shas[2], "head": kvd.shas[3]}))
    assert "1 of 2 benchmarks" in page


def test_two_commits_of_one_program_do_not_differ(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    artifacts = Build.objects.filter(commit=made.commit(4)).latest("pk").artifacts
    Build.objects.filter(commit=made.commit(5)).update(artifacts=artifacts)
    rows = api_rows(client, made, 4, 5)
    assert {row["verdict"] for row in rows} == {"same program"}
    gate = gates.gate_of(rows, 3.0)
    assert gate and gate["passed"] and gate["regressions"] == []
    release(made, v1_0=4, v1_1=5)
    surfaces = verdicts_by_surface(client, made, 4, 5)
    assert surfaces.pop("grid of commits") == "worse", "the mark of the confirmed change"
    assert surfaces.pop("grid of releases") == "same", "no colour"
    assert set(surfaces.values()) == {"same program"}
    (card,) = read(client, "/home.json")["projects"]
    assert (card["last_release"]["verdict"], card["last_release"]["look"]) == ("same program", "same")


def test_neighbours_are_compared_over_a_flagged_commit(kvd: World) -> None:
    flag(kvd, 2, 5.0)
    kvd.push(1)
    kvd.measure()
    (series,) = Series.objects.filter(metric=CPU, benchmark__name="get-p1")
    Measurement.objects.filter(commit=kvd.commit(4)).update(flags=["steal"])
    kvd.push(1)
    kvd.measure()
    head = kvd.commit(5).pk
    (found,) = judge_neighbours([series.pk], series_of_commits([head]))[head].by_index.values()
    assert (found.distance, found.judgement.verdict) == (2, Ruling.SAME)


def test_a_release_that_is_the_head_is_unchanged_without_an_interval(client: Client, kvd: World) -> None:
    """Its samples compared with themselves showed +0.00% in an interval of many per cents."""
    release(kvd, v1_0=3)
    (row, *_) = read(client, "/p/kvd.json", metric=CPU)["benchmarks"]
    since = row["since_release"]
    assert (since["ratio"], since["low"], since["high"], since["verdict"]) == (1.0, None, None, "same program")
    page = html_of(client.get("/p/kvd/"))
    assert "95% interval: –" in page and "+0.00%" in page


def test_one_query_reads_stored_answers_pairs_changes_and_points(slow: tuple[World, Alert]) -> None:
    made, _ = slow
    series = Series.objects.get(benchmark__name="get-p1", metric=CPU).pk
    ends = {
        name: TwoSides(series, made.commit(base).pk, made.commit(head).pk)
        for name, base, head in (("stored", 1, 2), ("change", 4, 5), ("samples", 0, 3), ("slower samples", 0, -1))
    }
    made.push(1)
    never_measured = TwoSides(series, made.commit(0).pk, made.commit(-1).pk)
    with counted() as context:
        judgements = judge([*ends.values(), never_measured], [TwoSides(series, ends["stored"].base_id, 0)])
    assert len(context) == 1
    assert {name: judgements[side].basis for name, side in ends.items()} == {
        "stored": Basis.STORED,
        "change": Basis.CHANGE,
        "samples": Basis.SAMPLES,
        "slower samples": Basis.SAMPLES,
    }
    assert len(judgements) == len(ends)
    change_comparisons(ends["stored"].head_id, distance=2)
    assert judge([ends["stored"]])[ends["stored"]].basis == Basis.SAMPLES, "stored against another commit"
    assert judge([], [ends["stored"]]) == {}
