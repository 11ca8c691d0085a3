"""The drawings of a run: its phases as a bar, its trials as dots."""

from html import escape

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from speedtrack.benchmarks import numbers
from speedtrack.runs.models import Run
from speedtrack.web.addresses import timeline_path
from speedtrack.web.drawing.small.strips import TRIAL_WIDTH, TrialDot, TrialStrip
from speedtrack.web.pages.running.phases import Phases, TrialChart, TrialsOfBenchmark
from speedtrack.web.templatetags.tables import join, side_cell

register = template.Library()


@register.simple_tag
def phase_bar(phases: Phases) -> SafeString:
    """The phases side by side, as long as they took."""
    bars = format_html_join(
        "",
        '<rect class="{}" x="{}" width="{}" height="22"><title>{}: {}</title></rect>',
        ((phase.look, phase.left, phase.width, phase.name, numbers.duration(phase.seconds)) for phase in phases.parts),
    )
    return format_html('<svg class="phases" width="100%" height="22" aria-hidden="true">{}</svg>', bars)


@register.simple_tag
def trial_strips(run: Run, chart: TrialChart) -> SafeString:
    """A row for each benchmark and side, and one for what was discarded."""
    rows = join(trial_strip_row(run, row) for row in chart.rows)
    if not chart.discarded:
        return rows
    dots = format_html_join("", '<circle class="dropped" cx="{}" cy="9" r="3"/>', ((x,) for x in chart.discarded))
    return rows + format_html(
        '<tr><th scope="row" class="soft">discarded</th>{}<td><svg class="trialstrip" viewBox="0 0 {} 18" width="{}" '
        'height="18" role="img" aria-label="{} discarded">{}</svg></td><td></td></tr>',
        format_html("<td></td>{}", "") if run.paired else "",
        *(f"{TRIAL_WIDTH:.0f}",) * 2,
        len(chart.discarded),
        dots,
    )


def trial_strip_row(run: Run, trials: TrialsOfBenchmark) -> SafeString:
    return format_html(
        '<tr><th scope="row"><a href="{}?machine={}">{}</a></th>{}<td>{}</td><td class="decision">{}</td></tr>',
        timeline_path(run.project.slug, trials.benchmark, trials.metric.name),
        run.machine.name,
        trials.benchmark,
        side_cell(run, trials.side),
        trial_strip(trials.strip, f"{trials.metric.title} of {len(trials.strip.dots)} trials: the table has them"),
        trials.decision,
    )


def trial_strip(strip: TrialStrip, label: str) -> SafeString:
    middle = f'<path d="M0 {strip.middle}H{strip.width:.0f}"/>' if strip.middle is not None else ""
    size = f'viewBox="0 0 {strip.width:.0f} {strip.height:.0f}" width="{strip.width:.0f}" height="{strip.height:.0f}"'
    dots = "".join(trial_dot(dot) for dot in strip.dots)
    drawing = f'<svg class="trialstrip" {size} role="img" aria-label="{escape(label)}">{middle}{dots}</svg>'
    return mark_safe(drawing)  # noqa: S308 - numbers are ours, texts are escaped


def trial_dot(dot: TrialDot) -> str:
    title = f"<title>{escape(dot.title)}</title>"
    if dot.flagged:
        return f'<rect x="{dot.x - 3.5:.1f}" y="{dot.y - 3.5:.1f}" width="7" height="7">{title}</rect>'
    return f'<circle cx="{dot.x}" cy="{dot.y}" r="3">{title}</circle>'
