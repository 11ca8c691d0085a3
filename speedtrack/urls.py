"""Every URL on one screen."""

from django.urls import path

from speedtrack.api import webhooks
from speedtrack.api.runner import api as runner_api
from speedtrack.web import views

urlpatterns = [
    path("healthz", views.healthz, name="healthz"),
    path("hooks/<str:hook_id>", webhooks.hook, name="hook"),
    path("api/runner/", runner_api.urls),
]
