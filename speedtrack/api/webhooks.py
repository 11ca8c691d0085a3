"""``POST /hooks/<hook id>``: store the call and answer. Never touches the broker or git."""

from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from speedtrack.projects import intake
from speedtrack.projects.models import Project


@csrf_exempt
@require_POST
def hook(request: HttpRequest, hook_id: str) -> JsonResponse:
    project = get_object_or_404(Project.objects.tracked(), hook_id=hook_id)
    try:
        # Not request.body: the request would keep it until the garbage collector finds the cycles it is part of.
        delivery = intake.receive(project, request.headers, request.read())
    except intake.BadSignature as e:
        return JsonResponse({"error": str(e)}, status=401)
    return JsonResponse({"status": delivery.status if delivery else "repeated"}, status=202)
