"""Counts of instructions: small changes of a nearly noiseless line are found, and settled by counting again."""

import random
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from django.core.mail import EmailMultiAlternatives
from django.core.management import call_command
from django.test import Client

from speedtrack.alerts.detection import detection
from speedtrack.alerts.lines import spreads
from speedtrack.alerts.lines.effects import smallest_effect
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, Verdict
from speedtrack.alerts.pairs import counts
from speedtrack.alerts.pairs.counts import FunctionCost
from speedtrack.alerts.settling import confirm, floors
from speedtrack.benchmarks.metrics import COUNTED
from speedtrack.judging import instructions
from speedtrack.judging.layouts import layout_sentences
from speedtrack.notices import mail
from speedtrack.notices.channels.document import message_of
from speedtrack.notices.channels.shapes import change_lines
from speedtrack.notices.models import Outbox, Subscriber
from speedtrack.notices.telling import tell_subscribers
from speedtrack.notices.tests.history import subscribed
from speedtrack.runs.models import Measurement, Reason, Result, Run, Samples, Series, Side
from speedtrack.runs.planning import pushes
from speedtrack.runs.queue import jobs, queue
from speedtrack.runs.results import results
from speedtrack.tests import builders, worlds

from .conftest import World

Status = ChangePoint.Status
(COUNT,) = COUNTED
HARDWARE, CPU = "instructions_per_request", "server_cpu_ns_per_request"
SUITE = builders.SUITE + '[instructions]\ninside = ["serve"]\nbenchmarks = ["get-p1"]\n'


@dataclass
class Counting:
    """The runner of a world whose suite counts: 4000 instructions, times the factors of all commits up to this one.

    ``hardware``: every trial has them from the processor's counter, and valgrind is missing.
    """

    world: World
    hardware: bool = False
    factors: dict[str, float] = field(default_factory=dict)
    noise: float = 0.0003
    function: str = "hash"  #: in which the server spends what is above 4000 instructions
    benchmarks: tuple[str, ...] = ("get-p1",)
    rng: random.Random = field(default_factory=lambda: random.Random(3))

    def count(self, sha: str) -> float:
        level = 4000.0
        for changed, factor in self.factors.items():
            level *= factor if self.world.shas.index(sha) >= self.world.shas.index(changed) else 1.0
        return level * self.rng.gauss(1, self.noise)

    def until_quiet(self, count: Callable[[str], float] | None = None) -> None:
        """Work, detect and settle until nothing is left to do."""
        for _ in range(40):
            worked = self.work(count or self.count)
            detection.detect()
            confirm.step()
            tell_subscribers()
            if not worked and not ChangePoint.objects.settling().exists() and not Run.objects.unfinished().exists():
                return
        raise AssertionError("the suspicions never come to rest")

    def work(self, count: Callable[[str], float]) -> int:
        done = 0
        while run := queue.claim(self.world.machine):
            self.measure(run, count)
            done += 1
        return done

    def measure(self, run: Run, count: Callable[[str], float]) -> None:
        """Build and measure both sides of a claimed run, and complete it."""
        counted = jobs.job_document(run)["counted"]
        for side, commit in builders.sides_of(run):
            builders.send_build(run, commit, side=side)
            for name in builders.measured(run):
                if run.reason == Reason.PROFILE:
                    builders.send_profile(run, name, commit)
                    continue
                times = [self.world.speed(commit.sha, name, trial) for trial in range(run.trials)]
                extra: dict[str, Any] = {"side": side}
                if counted:
                    extra["trials"] = [
                        counted_trial(one, count(commit.sha), self.function)
                        for one in builders.trials([{}] * run.trials)
                    ]
                elif self.hardware and name == "get-p1":
                    metrics = [{CPU: value, HARDWARE: count(commit.sha)} for value in times]
                    extra["trials"] = builders.trials(metrics)
                elif name in self.benchmarks and not (run.paired or self.hardware):
                    extra["once"] = {COUNT: count(commit.sha)}
                result = builders.result(run, name, commit, times, **extra)
                results.accept_result(self.world.machine, run.pk, result)
        queue.complete(self.world.machine, run.pk, run.lease_token)


def counted_trial(trial: dict[str, Any], value: float, function: str) -> dict[str, Any]:
    """A trial as the runner sends it."""
    functions = {"lookup": 3000.0, "reply": 950.0, function: round(value - 3950, 3)}
    return trial | {"metrics": {COUNT: value}, "server": {"counted": {"inside": "serve", "functions": functions}}}


def make_counting(settings: Any, directory: Path) -> Counting:
    builders.use_suite(settings, directory / "suites", SUITE)
    world = World(builders.Repository(directory / "repository"), builders.machine())
    world.shas = world.repository.commits(16)
    return Counting(world)


@pytest.fixture
def counting(db: None, tmp_path: Path, settings: Any) -> Counting:
    return make_counting(settings, tmp_path)


def make_changed(settings: Any, directory: Path, time: float, instructions: float, **wishes: Any) -> Counting:
    """The alert of the tenth commit, by these factors. ``wishes``: how it is tracked."""
    counting = make_counting(settings, directory)
    guilty = counting.world.shas[9]
    counting.world.factors, counting.factors = {guilty: time}, {guilty: instructions}
    builders.track(counting.world.repository, pushed=True, **wishes)
    counting.until_quiet()
    return counting


@worlds.shared
def more_work(settings: Any, directory: Path) -> Counting:
    """One per cent more instructions, which was mailed."""
    return make_changed(settings, directory, 1.0, 1.01, emails=["dev@example.org"])


@worlds.shared
def longer_work(settings: Any, directory: Path) -> Counting:
    """The same instructions take longer by 30%; nobody was told."""
    return make_changed(settings, directory, 1.3, 1.0)


@worlds.shared
def longer_and_more_work(settings: Any, directory: Path) -> Counting:
    """Slower by 30%, with 90% more instructions; nobody was told."""
    return make_changed(settings, directory, 1.3, 1.9)


def tell_what_was_raised() -> None:
    AlertEvent.objects.filter(kind="raised").update(untold=True)
    tell_subscribers()


def test_one_per_cent_more_instructions_is_one_alert_though_the_time_shows_nothing(more_work: Counting) -> None:
    guilty = more_work.world.shas[9]
    (cp,) = ChangePoint.objects.filter(status=Status.CONFIRMED)
    assert (cp.series.metric, cp.commit.sha, cp.ratio) == (COUNT, guilty, pytest.approx(1.01, abs=0.001))
    assert Alert.objects.get().commit.sha == guilty
    runs = Run.objects.filter(reason__in=(Reason.CONFIRM, Reason.BISECT))
    assert {(run.reason, run.trials) for run in runs} == {(Reason.CONFIRM, 4), (Reason.BISECT, 4)}
    assert all(jobs.is_counted(run) for run in runs)
    assert Verdict.objects.filter(change_point=cp, answer="different").get().pairs == 4
    paired = Samples.objects.filter(measurement__paired=True).exclude(measurement__attempt__run__reason=Reason.EFFECT)
    assert set(paired.values_list("measurement__series__metric", flat=True)) == {COUNT}


def test_two_steps_of_a_count_are_two_alerts_however_near(counting: Counting) -> None:
    world = counting.world
    counting.factors = {world.shas[14]: 1.07}
    project = builders.track(world.repository).project
    counting.until_quiet()
    world.shas.append(world.repository.commit())
    counting.factors[world.shas[16]] = 1.06
    pushes.sync_and_plan(project)
    counting.until_quiet()
    assert {alert.commit.sha for alert in Alert.objects.all()} == {world.shas[14], world.shas[16]}


def test_the_page_and_the_mail_name_the_function_that_grew(more_work: Counting, client: Client) -> None:
    alert = Alert.objects.get()
    (table,) = counts.function_tables(list(alert.change_points.all()))
    message = message_of(alert.events.latest("pk"), "1").named()
    for document in (client.get(f"/api/v1/alerts/{alert.pk}").json(), message["alert"]):
        assert document["function_tables"] == [asdict(table)]
        assert [one[:28] for one in document["which_moved"]] == ["get-p1: more instructions (+"]
    assert [one.name for one in table.functions] == ["hash"]
    assert table.growth == pytest.approx(40, abs=5)
    letter = mail.message_of(Outbox.objects.get())
    assert isinstance(letter, EmailMultiAlternatives)
    bodies = (str(letter.body), str(letter.alternatives[0][0]), client.get(f"/alerts/{alert.pk}/").content.decode())
    for body in bodies:
        text = " ".join(body.split())
        assert "Instructions per request by function" in text and "hash" in text
        assert "more instructions (+1" in text


def test_what_only_strings_that_moved_may_cost_is_said(counting: Counting, client: Client) -> None:
    counting.function, counting.factors = "__strcasecmp_avx2", {counting.world.shas[9]: 1.03}
    builders.track(counting.world.repository, emails=["dev@example.org"])
    counting.until_quiet()
    alert, message = Alert.objects.get(), mail.message_of(Outbox.objects.get())
    assert isinstance(message, EmailMultiAlternatives)
    page = client.get(f"/alerts/{alert.pk}/").content.decode()
    for body in (str(message.body), str(message.alternatives[0][0]), page):
        assert "All of it is in __strcasecmp_avx2" in " ".join(body.split())
    assert "Begin with the function" not in page
    (table,) = counts.function_tables(list(alert.change_points.all()))
    copies = replace(table, functions=[*table.functions, FunctionCost("sdsnewlen", 0.0, 73.0)])
    assert copies.remark == ""  # code that had not been there before


def test_the_mail_names_the_benchmark_of_each_table_of_functions(counting: Counting, settings: Any) -> None:
    suite = SUITE.replace('benchmarks = ["get-p1"]', 'benchmarks = ["get-p1", "set-p1"]')
    builders.use_suite(settings, settings.SUITES, suite)
    counting.benchmarks = ("get-p1", "set-p1")
    counting.factors = {counting.world.shas[9]: 1.03}
    builders.track(counting.world.repository, emails=["dev@example.org"])
    counting.until_quiet()
    message = mail.message_of(Outbox.objects.get())
    assert isinstance(message, EmailMultiAlternatives)
    text, html = str(message.body), " ".join(str(message.alternatives[0][0]).split())
    for name in counting.benchmarks:
        assert f"Instructions per request by function, {name}, before and after:" in text
        assert f"Instructions per request by function, <strong>{name}</strong>" in html


def test_a_time_comes_before_a_count_that_grew_more(longer_and_more_work: Counting) -> None:
    subscribed("dev@example.org")
    tell_what_was_raised()
    metrics = [cp.series.metric for cp in mail.changes_of(Alert.objects.get())]
    assert metrics[-1] == COUNT and metrics[0] == "server_cpu_ns_per_request"
    assert mail.message_of(Outbox.objects.get()).subject.startswith("[repository] slower +")


@pytest.mark.parametrize(
    "factors",
    [
        {8: 1.006, 10: 1.007},
        {8: 1.012, 10: 1.006},
        {8: 1.004, 10: 1.012},
        {8: 1.02, 10: 0.99},
        {8: 1.006, 10: 1.006},
        {7: 1.006, 11: 1.006},
        {8: 1.006, 9: 1.006},
        {8: 1.006, 9: 1.006, 10: 1.006},
    ],
)
def test_several_changes_within_one_bracket_are_found_with_their_own_sizes(
    counting: Counting, factors: dict[int, float]
) -> None:
    counting.factors = {counting.world.shas[place]: factor for place, factor in factors.items()}
    builders.track(counting.world.repository)
    counting.until_quiet()
    confirmed = ChangePoint.objects.filter(status=Status.CONFIRMED)
    found = {cp.commit.sha: cp.ratio for cp in confirmed.select_related("commit")}
    assert found == {sha: pytest.approx(factor, abs=0.001) for sha, factor in counting.factors.items()}
    assert {alert.commit.sha for alert in Alert.objects.all()} == set(counting.factors)


def test_a_noiseless_line_raises_no_suspicion_from_its_first_commit_on(counting: Counting) -> None:
    builders.track(counting.world.repository)
    counting.until_quiet()
    assert not ChangePoint.objects.filter(series__metric=COUNT).exists()


def test_an_unlucky_count_is_refuted_by_counting_again(counting: Counting) -> None:
    builders.track(counting.world.repository, emails=["dev@example.org"])
    late = set(counting.world.shas[13:])

    def unlucky(sha: str) -> float:
        paired = Run.objects.active().exclude(base=None).exists()
        return counting.count(sha) * (1.01 if sha in late and not paired else 1.0)

    counting.until_quiet(unlucky)
    assert {cp.status for cp in ChangePoint.objects.filter(series__metric=COUNT)} == {Status.REFUTED}
    assert not Alert.objects.exists()


def test_an_alert_says_when_the_same_instructions_take_longer(longer_work: Counting) -> None:
    alert = Alert.objects.get()
    sentences = instructions.sentences_of(instructions.works_of(list(alert.change_points.all())))
    assert len(sentences) >= 1 and all("the same instructions (" in one and "slower" in one for one in sentences)
    assert not any(jobs.is_counted(run) for run in Run.objects.all())


def changes_with_layout_sentences() -> tuple[list[ChangePoint], list[str]]:
    changes = list(Alert.objects.get().change_points.all())
    return changes, [one.partition(",")[0] for one in layout_sentences(instructions.works_of(changes))]


def test_an_alert_of_a_small_change_says_that_it_may_be_a_layout(counting: Counting, client: Client) -> None:
    counting.world.factors = {counting.world.shas[9]: 1.06}
    builders.track(counting.world.repository)
    counting.until_quiet()
    changes, sentences = changes_with_layout_sentences()
    assert sentences == ["May be layout"]
    expect_layouts(changes, client)


def test_an_alert_of_a_large_change_holds_over_layouts(longer_work: Counting, client: Client) -> None:
    changes, sentences = changes_with_layout_sentences()
    assert sentences == []
    expect_layouts(changes, client)


def expect_layouts(changes: list[ChangePoint], client: Client) -> None:
    """Expect the number of layouts on every face of the alert, once its pairs were measured in several."""
    alert = Alert.objects.get()
    paired = Result.objects.filter(attempt__run__base__isnull=False, side=Side.HEAD)
    paired.update(layouts=12)
    (sentence,) = layout_sentences(instructions.works_of(changes))
    assert re.match(r"Holds over (12|24|36|48) layouts of the program: get-p1", sentence)
    assert sentence in client.get(f"/alerts/{alert.pk}/").content.decode()
    assert sentence in client.get(f"/api/v1/alerts/{alert.pk}").json()["layouts"]


@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_the_counter_of_the_processor_tells_more_instructions_from_slower_ones(
    counting: Counting, factor: float, client: Client
) -> None:
    guilty = counting.world.shas[9]
    counting.hardware, counting.world.factors, counting.factors = True, {guilty: 1.3}, {guilty: factor}
    builders.track(counting.world.repository)
    counting.until_quiet()
    alert = Alert.objects.get()
    first, *_ = changes = sorted(alert.change_points.all(), key=lambda cp: cp.rank)
    assert first.series.metric == CPU
    (sentence,) = instructions.sentences_of(instructions.works_of(changes))
    same = factor == 1.0
    assert ("get-p1: the same instructions (" in sentence and sentence.endswith("slower")) == same
    assert ("get-p1: more instructions (+30" in sentence) == (not same)
    assert sentence in " ".join(client.get(f"/alerts/{alert.pk}/").content.decode().split())


@pytest.mark.parametrize(
    ("noise", "least", "most"), [(0.0003, 0.002, 0.002), (0.002, 0.003, 0.009), (0.02, 0.01, 0.01)]
)
def test_the_counter_of_the_processor_is_watched_from_what_pairs_of_one_build_show(
    counting: Counting, noise: float, least: float, most: float
) -> None:
    counting.hardware, counting.noise = True, noise
    builders.track(counting.world.repository, last=4)
    counting.until_quiet()
    series = Series.objects.get(metric=HARDWARE, benchmark__name="get-p1")
    assert smallest_effect(series) == 0.01
    call_command("measure", "repository", counting.world.shas[-1], "--aa")
    counting.until_quiet()
    floors.store_due()
    assert least <= smallest_effect(series) <= most
    assert smallest_effect(Series.objects.get(metric=CPU, benchmark__name="get-p1")) == 0.03  # the suite's own


def test_counts_are_watched_from_the_difference_of_two_processes_of_one_build_on(counting: Counting) -> None:
    """Of two levels each process takes one by chance; every commit's single count does, too."""
    levels = [4000.0, 4000.0 * 1.0024]
    builders.track(counting.world.repository, last=4)
    counting.until_quiet()
    series = Series.objects.get(metric=COUNT)
    assert smallest_effect(series) == 0.002
    call_command("measure", "repository", counting.world.shas[-1], "--aa")
    counting.until_quiet(lambda sha: counting.rng.choice(levels))
    assert [run.trials for run in Run.objects.filter(reason=Reason.AA, metrics=COUNTED)] == [floors.AA_COUNTS]
    floors.store_due()
    assert smallest_effect(series) == pytest.approx(0.0024)
    assert spreads.newest_floors([series.pk])[series.pk].pairs == floors.AA_COUNTS
    assert smallest_effect(Series.objects.get(metric=CPU, benchmark__name="get-p1")) == 0.03


def test_half_a_per_cent_more_instructions_by_the_counter_is_confirmed_on_a_steady_machine(counting: Counting) -> None:
    guilty = counting.world.shas[9]
    counting.hardware, counting.factors = True, {guilty: 1.005}
    builders.track(counting.world.repository)
    call_command("measure", "repository", counting.world.shas[0], "--aa")
    counting.work(counting.count)
    floors.store_due()
    counting.until_quiet()
    (cp,) = ChangePoint.objects.filter(status=Status.CONFIRMED)
    assert (cp.series.metric, cp.commit.sha, cp.ratio) == (HARDWARE, guilty, pytest.approx(1.005, abs=0.001))


def mailed_of_three_subscriptions() -> set[str]:
    subscribed("all@example.org")
    subscribed("source@example.org", skip_same_instructions=True)
    subscribed("ada@example.org", skip_same_instructions=True, person={"own_commits": True})  # the author
    Subscriber.objects.filter(email="ada@example.org").update(own_time_only=True)
    tell_what_was_raised()
    assert Alert.objects.count() == 1
    return set(Outbox.objects.values_list("recipient", flat=True))


def test_a_subscription_can_leave_out_what_takes_longer_with_the_same_instructions(longer_work: Counting) -> None:
    assert mailed_of_three_subscriptions() == {"all@example.org"}


def test_a_subscription_that_leaves_that_out_tells_of_more_instructions(longer_and_more_work: Counting) -> None:
    assert mailed_of_three_subscriptions() == {"all@example.org", "source@example.org", "ada@example.org"}


def mails_to_author(wants_time_only: bool, is_time_only: bool) -> int:
    """The number of mails to the author, who wants to be told of what moved in time alone, or does not."""
    Subscriber.objects.create(email="ada@example.org", own_time_only=wants_time_only)
    tell_what_was_raised()
    event = message_of(Alert.objects.get().events.get(kind="raised"), "1")
    assert event.alert.is_time_only == is_time_only
    return Outbox.objects.count()


@pytest.mark.parametrize("wants", [False, True])
def test_an_author_is_told_of_what_moved_in_time_alone_only_on_request(longer_work: Counting, wants: bool) -> None:
    assert mails_to_author(wants, is_time_only=True) == wants


def test_an_author_is_told_of_more_instructions(longer_and_more_work: Counting) -> None:
    assert mails_to_author(wants_time_only=False, is_time_only=False) == 1


def test_counts_that_are_missing_are_taken_before_an_alert_is_told(counting: Counting, client: Client) -> None:
    """The line of the counts begins behind the change: the suite has named the benchmark since then."""
    guilty = counting.world.shas[9]
    counting.world.factors = {guilty: 1.3}
    builders.track(counting.world.repository, emails=["dev@example.org"])
    counting.work(counting.count)
    Measurement.objects.filter(series__metric=COUNT, commit__sha__in=counting.world.shas[:10]).delete()
    for _ in range(40):
        detection.detect()
        confirm.step()
        if asked := Run.objects.filter(reason=Reason.EFFECT, metrics=COUNTED).first():
            break
        counting.work(counting.count)
    assert asked and (asked.trials, asked.benchmark_set.names) == (4, ["get-p1"])
    tell_subscribers()
    assert not Outbox.objects.exists()
    counting.until_quiet()
    alert = Alert.objects.get()
    message = message_of(alert.events.get(kind="raised"), "1")
    words = message.alert.instructions
    assert words.startswith("the same instructions (")
    assert {change.instructions for change in message.alert.changes} == {words}
    assert all(line.endswith(words) for line in change_lines(message) if "95%" in line)
    text = " ".join(mail.message_of(Outbox.objects.get()).body.split())
    assert "In time alone" in text and words in text
    assert words in client.get(f"/alerts/{alert.pk}/").content.decode()
