"""What is taken out of the rows of a small healthy world, and which check misses it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from research.chaos import checks
from research.chaos.ledger import Ledger
from speedtrack.projects.models import ChainCommit, Delivery
from speedtrack.runs.models import LogChunk, Measurement, Result, Run, Samples, Trial
from speedtrack.web.tests.world import CPU, World, world

ROUND = 3


@pytest.fixture
def ledger(db: None, settings: Any, tmp_path: Path) -> Ledger:
    """Four measured commits with logs, two accepted deliveries, and a round of one run by hand."""
    made = world(settings, tmp_path)
    made.measure()
    found = Ledger(tmp_path / "ledger.jsonl")
    for run in Run.objects.all():
        LogChunk.objects.create(attempt=run.attempts.get(), seq=0, phase="measure", text="measured\n")
    for number in ("1", "2"):
        body: dict[str, Any] = {"headers": {}, "packed_body": b"", "body_digest": number, "status": "processed"}
        Delivery.objects.create(project=made.project, provider="github", delivery_id=number, event="push", **body)
        found.note("accepted", delivery=number)
    order_by_hand(made, found)
    return found


def order_by_hand(made: World, ledger: Ledger) -> None:
    first = Run.objects.earliest("pk")
    Run.objects.filter(pk=first.pk).update(reason="manual", round=ROUND)
    ledger.note("ordered", round=ROUND, runs=1)


def missed(ledger: Ledger) -> list[str]:
    of_ledger = [*checks.lost_deliveries(ledger), *checks.lost_orders(ledger)]
    return [*checks.wrong_samples(), *checks.lost_parts(), *of_ledger, *checks.fsck_faults()]


def newest() -> Result:
    return Result.objects.latest("pk")


def lose_whole_result() -> None:
    result = newest()
    Measurement.objects.filter(attempt=result.attempt, series__benchmark=result.benchmark).delete()
    result.delete()


def lose_metric() -> None:
    run = newest().attempt.run
    Measurement.objects.filter(attempt__run=run, series__metric="throughput_rps").delete()


def lose_samples_beside_the_headline() -> None:
    Samples.objects.filter(measurement=Measurement.objects.exclude(series__metric=CPU).first()).delete()


def lose_order() -> None:
    Run.objects.filter(round=ROUND).update(round=0, reason="backfill")


def lose_trial_with_its_document() -> None:
    result = newest()
    Trial.objects.filter(result=result).delete()
    Result.objects.filter(pk=result.pk).update(documents=None)


def change_sample() -> None:
    samples = Samples.objects.filter(measurement__n=5).earliest("pk")
    Samples.objects.filter(pk=samples.pk).update(values=[5e9] * 5)


LOSSES: dict[str, tuple[Callable[[], object], str]] = {
    "a result": (lambda: newest().delete(), "there is no result of "),
    "a result with all that belongs to it": (lose_whole_result, "of 2 results"),
    "a metric": (lose_metric, "lacks throughput_rps"),
    "samples beside the headline": (lose_samples_beside_the_headline, "only 1 of 2 metrics have samples"),
    "a run by hand": (lose_order, "1 runs of round 3 were ordered, and there are 0"),
    "a delivery": (
        lambda: Delivery.objects.earliest("pk").delete(),
        "2 deliveries were accepted and 0 were not, but 1 are",
    ),
    "all logs": (lambda: LogChunk.objects.all().delete(), "has no log"),
    "a trial": (lambda: Trial.objects.filter(result=newest(), number=4).delete(), "has 4 of 5 trials"),
    "all trials and their documents": (lose_trial_with_its_document, "has 0 of 5 trials"),
    "a build": (lambda: newest().attempt.builds.all().delete(), "there is no build of "),
    "a commit in the middle": (lambda: ChainCommit.objects.get(number=1).delete(), "in place 1 git has "),
    "a sample's value": (change_sample, "those that are stored give "),
}


def test_nothing_is_missed_in_a_healthy_world(ledger: Ledger) -> None:
    assert missed(ledger) == []


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_is_seen(ledger: Ledger, loss: str) -> None:
    lose, sentence = LOSSES[loss]
    lose()
    found = missed(ledger)
    assert any(sentence in fault for fault in found), found


def test_a_delivery_without_an_answer_may_be_stored(ledger: Ledger) -> None:
    Delivery.objects.update(copies=2)
    assert "but 4 are stored" in checks.lost_deliveries(ledger)[0]
    for _ in range(2):
        ledger.note("refused", delivery="1", answer="timed out")
    assert checks.lost_deliveries(ledger) == []
