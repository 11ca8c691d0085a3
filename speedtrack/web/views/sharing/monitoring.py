"""What programs ask that watch this installation: is it alive, is it ready, and its metrics."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from speedtrack import __version__
from speedtrack.monitoring import collector, health
from speedtrack.monitoring.remembered import StillComputing
from speedtrack.web.requests import monitoring

REFUSED = "the metrics are for this host only: set METRICS_TOKEN, and send it as `Authorization: Bearer <token>`"


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer that the process is alive, and of which release it is."""
    return HttpResponse("ok\n", content_type="text/plain", headers={"X-SpeedTrack-Version": __version__})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer whether pages, runners and pushes are served: 503 if not.

    Only who may read the metrics is told the reasons.
    """
    findings = health.findings()
    is_ready = health.is_ready(findings)
    checks = {finding.name: {"state": finding.state, "why": finding.words} for finding in findings}
    if not monitoring.may_watch(request):
        checks = {name: {"state": check["state"]} for name, check in checks.items()}
    return JsonResponse({"ready": is_ready, "checks": checks}, status=200 if is_ready else 503)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The metrics in Prometheus' text format."""
    if not monitoring.may_watch(request):
        answer = JsonResponse({"error": REFUSED}, status=401)
        answer["WWW-Authenticate"] = "Bearer"
        return answer
    try:
        return HttpResponse(collector.exposition(), content_type=CONTENT_TYPE_LATEST)
    except StillComputing as e:
        return JsonResponse({"error": str(e)}, status=503)
