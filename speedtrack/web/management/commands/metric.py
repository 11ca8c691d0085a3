"""``manage.py metric PROJECT [NAME]``: list the metrics from outside, or say which change of one matters."""

from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError

from speedtrack.benchmarks.metrics import OUTSIDE_EFFECT
from speedtrack.benchmarks.models import OutsideMetric
from speedtrack.operations import projects
from speedtrack.operations.performing import Actor
from speedtrack.runs import naming
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "List a project's metrics from outside, or set the smallest change of one that matters."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("project", help="name of a tracked project")
        parser.add_argument("name", nargs="?", help="of a metric")
        parser.add_argument(
            "--smallest-effect", type=share, metavar="PERCENT", help="such as 1%%; smaller changes raise no alert"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        project = naming.project_named(options["project"])
        metrics = OutsideMetric.objects.filter(project=project).order_by("name")
        if options["name"] is not None:
            metrics = metrics.filter(name=options["name"])
            if not metrics:
                raise CommandError(f"{project} has no metric {options['name']!r} from outside")
        if (effect := options["smallest_effect"]) is not None:
            if options["name"] is None:
                raise CommandError("name the metric")
            projects.set_smallest_effect(Actor(), metrics.get(), effect)
        for metric in metrics.all():
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
