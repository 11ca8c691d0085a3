"""``POST /hooks/<hook id>``: store the call and answer. Never touches the broker or git."""

import logging
from io import BufferedRandom
from typing import BinaryIO

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from structlog.contextvars import bind_contextvars

from speedtrack.calls import rates
from speedtrack.ground.secrets.sealed import KeyLost
from speedtrack.monitoring.counters import DELIVERIES
from speedtrack.projects import intake
from speedtrack.projects.forges.bodies import Body
from speedtrack.projects.forges.providers import provider_of
from speedtrack.projects.forges.signing import BadSignature, HookCall
from speedtrack.projects.models import Project

log = logging.getLogger(__name__)


@csrf_exempt
@require_POST
def hook(request: HttpRequest, hook_id: str) -> JsonResponse:
    """Answer 202 to every signed call, even to ignored ones: some forges disable a webhook that answers 4xx.

    Answer 429, before the body is read, beyond HOOK_RATE calls a minute: polling finds what was pushed meanwhile.
    """
    project = get_object_or_404(Project.objects.tracked(), hook_id=hook_id)
    if settings.HOOK_RATE:
        standing = rates.take(f"hook {project.pk}", settings.HOOK_RATE)
        if not standing.is_allowed:
            DELIVERIES.labels(named_provider(request), "limited").inc()
            detail = f"more than {settings.HOOK_RATE} calls a minute: the repository is looked at in any case"
            return JsonResponse({"error": detail}, status=429, headers={"Retry-After": str(standing.wait_s)})
    try:
        delivery = intake.receive(project, request.headers, body_of(request))
    except BadSignature as e:
        DELIVERIES.labels(named_provider(request), "refused").inc()
        return JsonResponse({"error": str(e)}, status=401)
    except KeyLost as e:
        log.error("the webhook of %s cannot be checked: %s", project, e)
        return JsonResponse({"error": "this server cannot read the webhook's secret: its log says why"}, status=503)
    status = delivery.status if delivery else "repeated"
    DELIVERIES.labels(named_provider(request), status).inc()
    bind_contextvars(project=project.slug, delivery=delivery.delivery_id if delivery else "")
    reason = {"reason": delivery.outcome} if delivery and delivery.outcome else {}
    return JsonResponse({"status": status, **reason}, status=202)


def body_of(request: HttpRequest) -> bytes | BinaryIO:
    """The body: the web server keeps a long one in a file, which is read there, as it may be 26 MB.

    Not request.body: the request would keep it until the garbage collector finds the cycles it is part of.
    """
    arrived = request.META.get("wsgi.input")
    return arrived if isinstance(arrived, BufferedRandom) else request.read()


def named_provider(request: HttpRequest) -> str:
    """The forge that a call claims to be from, which may be wrong."""
    try:
        return provider_of(HookCall(request.headers, Body.of(b""), 0.0)).name
    except BadSignature:
        return "none"
