"""The commit page: results against the commit measured before, builds, runs."""

import html
import re

import numpy as np
import pytest
from django.test import Client

from speedtrack.alerts.lines import lines
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.judging.seriescolumns import series_of_commits
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.models import Project, Tag
from speedtrack.reports.readings.commits import read
from speedtrack.runs.documents import LogPiece
from speedtrack.runs.models import Build, Series
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import byhand
from speedtrack.web.pages import paging
from speedtrack.web.pages.commit import description, results
from speedtrack.web.pages.commit import page as commit_page
from speedtrack.web.tests.world import CPU, HOSTILE, World, html_of, queries

SENSITIVITY = ("sensitivity__visible", "sensitivity__visible_within")


def test_results_are_compared_on_their_samples(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    page = html_of(client.get(f"/p/kvd/c/{made.shas[5]}/"))
    assert "! slower" in page
    assert "+20" in page
    assert f"alert {alert.pk}" in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


def test_equal_neighbours_are_the_same(client: Client, kvd: World) -> None:
    page = html_of(client.get(f"/p/kvd/c/{kvd.shas[2][:10]}/"))
    assert 'class="answer same">same' in page
    assert "! slower" not in page


def test_the_first_measurement_has_nothing_before_it(client: Client, kvd: World) -> None:
    page = html_of(client.get(f"/p/kvd/c/{kvd.shas[0]}/"))
    assert "first measurement" in page
    assert "newer →" in page
    assert "← older" not in page


def test_a_failed_build_shows_its_log(client: Client, kvd: World) -> None:
    kvd.push(1)
    run = queue.claim(kvd.machines[0])
    assert run
    text = "\x1b[31merror:\x1b[0m <b>bold</b>\u202eevil\n"
    queue.keep_log(
        run.machine, run.pk, LogPiece(token=run.lease_token, seq=0, phase=f"build {run.commit.sha}", text=text)
    )
    kvd.fail()
    # the claim of fail() took the run back; its second attempt failed without a log
    page = html_of(client.get(f"/p/kvd/c/{run.commit.sha}/"))
    assert "make exited with code 2" in page
    log = b"".join(client.get(f"/runs/{run.pk}/log.txt")).decode()
    assert "error: <b>bold</b>evil" in log
    assert "\x1b" not in log


def test_an_unmeasured_commit_says_so(client: Client, kvd: World) -> None:
    kvd.push(1)
    assert "This commit has no measurement" in html_of(client.get(f"/p/kvd/c/{kvd.shas[-1]}/"))


def test_the_page_has_the_message_and_the_changed_files(client: Client, kvd: World) -> None:
    (sha,) = kvd.push(1, f"Subject\n\nThe reason {HOSTILE}\u202e")
    page = html_of(client.get(f"/p/kvd/c/{sha}/"))
    assert "The reason &lt;script&gt;" in page and "\u202e" not in page
    assert "1 changed file" in page and "file.txt" in page and "+1 −1" in page
    assert "at its forge" not in page
    Project.objects.update(url="https://github.com/owner/name.git")
    page = html_of(client.get(f"/p/kvd/c/{sha}/"))
    assert f'href="https://github.com/owner/name/blob/{sha}/file.txt"' in page
    assert f'href="https://github.com/owner/name/commit/{sha}"' in page


def test_what_git_could_not_tell_is_asked_for_again(client: Client, kvd: World) -> None:
    address = f"/p/kvd/c/{kvd.shas[3]}/"
    description.known_description.cache_clear()  # other tests look at the same commit
    absent = mirror_of("kvd").rename(mirror_of("kvd-absent"))
    assert "changed file" not in html_of(client.get(address))
    absent.rename(mirror_of("kvd"))
    assert "1 changed file" in html_of(client.get(address))


def test_the_page_has_the_alerts_that_name_the_commit(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow

    def sentences(place: int) -> list[str]:
        page = html_of(client.get(f"/p/kvd/c/{made.shas[place]}/"))
        found = re.search(r'<ul class="openalerts">.*?</ul>', page)
        return re.findall(r"<p>(.*?)</p>", re.sub(r"<(?!/?p>)[^>]*>", "", found[0])) if found else []

    slower = r"slower \+20\.\d% \S+-p1, Server CPU per request and 1 more"
    (sentence,) = sentences(5)
    assert re.fullmatch(
        rf"Caused by this commit: {slower} on main. Alert {alert.pk} is confirmed; nobody has it.", sentence.strip()
    )
    assert sentences(4) == sentences(7) == []
    Alert.objects.update(status="fixed", fixed_by=made.commit(7), reverted_by=made.commit(7))
    (sentence,) = sentences(7)
    assert re.fullmatch(
        rf"Fixed by this commit; reverted by this commit: {slower} on main since {made.commit(5).short} .*. "
        rf"Alert {alert.pk} is fixed by {made.commit(7).short}.",
        sentence.strip(),
    )


def test_what_is_unsettled_beside_its_confirmed_cause_is_one_line(client: Client, slow: tuple[World, Alert]) -> None:
    """The throughput of the same commits, which measuring again did not decide."""
    made, alert = slow
    cpu = ChangePoint.objects.filter(alert=alert, series__benchmark__name="get-p1", series__metric=CPU).get()
    rate = Series.objects.get(benchmark__name="get-p1", metric="throughput_rps")
    ChangePoint.objects.filter(series=rate).delete()
    cpu.pk, cpu.series, cpu.alert, cpu.status, cpu.ratio, cpu.before = (
        None,
        rate,
        None,
        "unsettled",
        0.9,
        made.commit(3),
    )
    cpu.save()
    for address in (f"/p/kvd/c/{made.shas[5]}/", "/p/kvd/"):
        page = html_of(client.get(address))
        changed = re.findall(r'<ol class="changes">(.*?)</ol>', page)[0]
        assert (changed.count("<li>"), "unsettled" in changed, f"alert {alert.pk}" in changed) == (1, False, True)


def test_the_runs_are_counted_beyond_those_listed(client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_page, "FEW_RUNS", 1)
    for _ in range(2):
        byhand.queue_by_hand(byhand.choose("kvd", kvd.shas[1], [], None))
        kvd.measure()
    address = f"/p/kvd/c/{kvd.shas[1]}/"
    assert "All 3 runs" in html_of(client.get(address))
    monkeypatch.setattr(commit_page, "MOST_RUNS", 2)
    assert "The newest 2 of 3 runs" in html_of(client.get(address))


def test_the_page_names_the_last_release_and_loads_what_differs(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    for name, place in (("1.0", 1), ("1.1", 2), ("1.1-rc1", 3), ("9.0", 7)):
        Tag.objects.create(project=made.project, name=name, sha=made.shas[place])
    page = html_of(client.get(f"/p/kvd/c/{made.shas[6]}/"))
    assert "Against the last release, 1.1<" in page
    part = re.search(r'data-part="([^"]+)"', page)
    assert part
    summary = html_of(client.get(html.unescape(part[1])))
    assert '4 <span class="worse">worse</span>' in summary
    assert "! slower" in summary and "<html" not in summary


def test_a_build_has_its_size_and_says_of_which_commit_it_is_the_same(client: Client, kvd: World) -> None:
    Build.objects.filter(commit__in=[kvd.commit(2), kvd.commit(3)]).update(
        artifacts={"kvd": {"digest": "d", "bytes": 2048}}
    )
    page = html_of(client.get(f"/p/kvd/c/{kvd.shas[3]}/"))
    assert "<strong>kvd</strong> of 2.0 KB" in page
    assert "The same program as of" in page
    assert "The same program as of" not in html_of(client.get(f"/p/kvd/c/{kvd.shas[1]}/"))


def test_a_commit_as_values(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    found = client.get(f"/p/kvd/c/{made.shas[5][:10]}.json").json()
    assert (found["schema"], found["sha"], found["machine"]) == ("speedtrack.commit/2", made.shas[5], "kvd-m1")
    assert found["alerts"] == [{"id": alert.pk, "status": "confirmed", "roles": ["moved here"]}]
    one = next(one for one in found["results"] if one["metric"].startswith("server_cpu"))
    assert one["ratio"] == pytest.approx(1.2, abs=0.01) and one["answer"] == "slower" and one["commits_before"] == 1
    table = b"".join(client.get(f"/p/kvd/c/{made.shas[5]}.csv")).decode().splitlines()
    assert len(table) - 1 == len(found["results"]) == 4
    assert client.get(f"/p/kvd/c/{made.shas[5]}.xml").status_code == 404


def test_many_results_are_a_page_of_their_own(client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"/p/kvd/c/{kvd.shas[2]}/"
    assert 'class="matrix"' in html_of(client.get(address))
    monkeypatch.setattr(results, "FEW_RESULTS", 1)
    page = html_of(client.get(address))
    assert 'class="matrix"' not in page
    (link,) = re.findall(r'<p id="numbers">\s*<a href="(\?metric=[^"]+)#numbers">All \d+ results', page)
    complete = html_of(client.get(address + html.unescape(link)))
    assert "morerows" not in complete and benchmarks_of(complete) == ["get-p1", "set-p1"]
    monkeypatch.setattr(paging, "MOST", 1)
    first = html_of(client.get(address + html.unescape(link)))
    assert benchmarks_of(first) == ["get-p1"] and "1 of 2 benchmarks" in first
    (following,) = re.findall(r'href="([^"]+)#numbers"\s+rel="next"', first)
    second = html_of(client.get(address + html.unescape(following)))
    assert benchmarks_of(second) == ["set-p1"] and "Benchmarks 2 to 2 of 2" in second
    assert first.count("of 2 moved") == second.count("of 2 moved") == complete.count("of 2 moved")


def benchmarks_of(page: str) -> list[str]:
    """The benchmarks of the table of all results."""
    return re.findall(r'<th scope="row">\s*([\w-]+)\s*</th>', page.partition('class="matrix"')[2])


def test_of_many_results_those_that_moved_come_first(
    client: Client, slow: tuple[World, Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = slow
    address = f"/p/kvd/c/{made.shas[5]}/"
    few = re.findall(r'<span class="answer worse">! slower', html_of(client.get(address)))
    monkeypatch.setattr(results, "FEW_RESULTS", 3)
    page = html_of(client.get(address))
    assert "4 of 4 moved" in page and "these are the largest 3" in page
    assert len(few) == 4 and page.count(", Server CPU per request</a></th>") + page.count(", Throughput</a></th>") == 3


def test_results_as_columns_are_those_of_their_objects(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    for place in (0, 5, 6):
        commit = commit_page.commit_or_404("kvd", made.shas[place])
        measured = read(commit, None, None).measured
        rows = client.get(f"/p/kvd/c/{commit.sha}.json").json()["results"]
        for row, result in zip(rows, measured.at(np.arange(len(measured))), strict=True):
            comparison, point = result.comparison, result.point
            assert (row["series"], row["benchmark"], row["metric"]) == (
                *(result.series_id, result.benchmark, result.metric.name),
            )
            assert (row["value"], row["low"], row["high"], row["n"]) == (point.value, point.low, point.high, point.n)
            assert (row["answer"], row["flags"], row["unit"]) == (result.answer, point.flags, result.metric.unit)
            judgement = comparison.judgement if comparison else None
            expected = [judgement and getattr(judgement, name) for name in ("ratio", "low", "high", "verdict")]
            assert [row[name] for name in ("ratio", "ratio_low", "ratio_high", "verdict")] == expected
            assert row["commits_before"] == (comparison and comparison.distance)
            assert row["value_before"] == (comparison and comparison.old)


def test_series_as_columns_are_those_of_the_points(slow: tuple[World, Alert]) -> None:
    made, _ = slow
    commits = [made.commit(place).pk for place in (2, 6)]
    fields = ("pk", "machine__name", "machine__outside", "benchmark__name", "metric", "undetected_since")
    for commit, columns in series_of_commits(commits).items():
        points = lines.point_measurements().filter(commit=commit)
        rows = points.values_list(*(f"series__{name}" for name in (*fields, *SENSITIVITY))).distinct()
        expected = [
            (*names, since is not None, visible, within) for *names, since, visible, within in rows.order_by("series")
        ]
        machines, names = columns.machines, columns.names
        indexed = zip(columns.series, columns.machine, columns.name, columns.metric, strict=True)
        known = zip(columns.is_new, columns.visible, columns.within, strict=True)
        assert expected == [
            (pk, *machines[machine], names.benchmarks[name], names.metrics[metric], bool(is_new), *limits)
            for (pk, machine, name, metric), (is_new, *limits) in zip(indexed, known, strict=True)
        ]
    assert series_of_commits([]) == {}


def test_ambiguous_or_unknown_hashes_are_not_found(client: Client, kvd: World) -> None:
    for sha in (kvd.shas[0][:6], "f" * 40, "nothex!"):
        assert client.get(f"/p/kvd/c/{sha}/").status_code == 404


def test_the_number_of_queries_does_not_grow(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    address = f"/p/kvd/c/{made.shas[5]}/"
    few = queries(client, address)
    made.push(8)
    made.measure()
    assert queries(client, address) == few
    assert queries(client, f"/p/kvd/c/{made.shas[-2]}/") <= few <= 12
