"""``manage.py metric PROJECT [NAME]``: list the metrics from outside; change, rename or delete one."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandError

from speedtrack.benchmarks.metrics import OUTSIDE_EFFECT
from speedtrack.benchmarks.models import OutsideMetric
from speedtrack.operations import metrics
from speedtrack.operations.performing import Actor, BadInput
from speedtrack.runs import naming
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "List a project's metrics from outside; set the smallest change of one that matters, rename or delete it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("project", help="name of a tracked project")
        parser.add_argument("name", nargs="?", help="of a metric")
        parser.add_argument(
            "--smallest-effect", type=share, metavar="PERCENT", help="such as 1%%; smaller changes raise no alert"
        )

        parser.add_argument("--rename", metavar="NEW", help="give it another name, with all its history")
        parser.add_argument(
            "--delete", action="store_true", help="delete it with all its measurements, so that its name is free"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        project, actor = naming.project_named(options["project"]), Actor()
        outside_metrics = OutsideMetric.objects.filter(project=project).order_by("name")
        if options["name"] is None:
            if options["smallest_effect"] is not None or options["rename"] is not None or options["delete"]:
                raise CommandError("name the metric")
            return self.list(outside_metrics)
        metric = outside_metrics.filter(name=options["name"]).first()
        if metric is None:
            raise CommandError(f"{project} has no metric {options['name']!r} from outside")
        if options["delete"]:
            self.stdout.write(metrics.delete(actor, metric).sentence)
            return None
        if (effect := options["smallest_effect"]) is not None:
            metrics.set_smallest_effect(actor, metric, effect)
        if (name := options["rename"]) is not None:
            try:
                self.stdout.write(metrics.rename(actor, metric, name).sentence)
            except BadInput as e:
                raise CommandError(str(e)) from e
        return self.list([metric])

    def list(self, rows: Iterable[OutsideMetric]) -> None:
        for metric in rows:
            effect = metric.smallest_effect or OUTSIDE_EFFECT
            unit = metric.metric.unit or "no unit"
            description = f"{unit}, {metric.metric.better} is better, changes from {100 * effect:g}% on"
            self.stdout.write(f"{metric.name}: {description}")


def share(text: str) -> float:
    """A percentage as a ratio: ``1%`` or ``1`` is 0.01."""
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = 0.0
    if not 0 < percent < 100:
        raise ArgumentTypeError(f"{text!r} is no percentage between 0 and 100: give such as 1%")
    return percent / 100
