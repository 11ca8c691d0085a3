"""Every URL on one screen."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from speedtrack.api import webhooks
from speedtrack.api.runner import api as runner_api
from speedtrack.web import alertviews, channels, feeds, ladderviews, notifications, views
from speedtrack.web.requests.login import LoginForm

LINE = "p/<slug:slug>/timeline/<str:benchmark>/<slug:metric>"

LOGIN = LoginView.as_view(
    template_name="web/login.html", authentication_form=LoginForm, redirect_authenticated_user=True
)
handler400 = "speedtrack.web.requests.errors.bad_request"
handler403 = "speedtrack.web.requests.errors.forbidden"
handler500 = "speedtrack.web.requests.errors.server_error"

urlpatterns = [
    path("", views.home, name="home"),
    path("p/<slug:slug>/", views.project, name="project"),
    path(LINE, views.timeline, name="timeline"),
    path(f"{LINE}.<str:form>", views.timeline_values, name="timeline-values"),
    path("p/<slug:slug>/releases/", ladderviews.releases, name="releases"),
    path("ladders/", ladderviews.ladders, name="ladders"),
    path("ladders.<str:form>", ladderviews.ladders_values, name="ladders-values"),
    path("p/<slug:slug>/c/<str:sha>/", views.commit, name="commit"),
    path("p/<slug:slug>/alerts/", views.alerts, name="alerts"),
    path("alerts/", views.alerts, name="all-alerts"),
    path("p/<slug:slug>/alerts.atom", feeds.alerts_feed, name="alerts-feed"),
    path("alerts.atom", feeds.alerts_feed, name="all-alerts-feed"),
    path("p/<slug:slug>/channels/", channels.list_channels, name="channels"),
    path("p/<slug:slug>/channels/add/<str:kind>/", channels.add_channel, name="channel-add"),
    path("p/<slug:slug>/channels/<int:pk>/", channels.change_channel, name="channel"),
    path("p/<slug:slug>/channels/<int:pk>/<str:action>", channels.act_on_channel, name="channel-act"),
    path("alerts/<int:pk>/", views.alert, name="alert"),
    path("alerts/<int:pk>/move/", alertviews.move_alert, name="alert-move"),
    path("alerts/<int:pk>/split/", alertviews.split_alert, name="alert-split"),
    path("alerts/<int:pk>/merge/", alertviews.merge_alerts, name="alert-merge"),
    path("p/<slug:slug>/sensitivity/", alertviews.sensitivity, name="sensitivity"),
    path("p/<slug:slug>/sensitivity.json", alertviews.sensitivity_values, name="sensitivity-values"),
    path("p/<slug:slug>/mutes/", alertviews.mutes, name="mutes"),
    path("p/<slug:slug>/mutes/<int:pk>/end/", alertviews.end_mute, name="mute-end"),
    path("runs/<int:pk>/", views.run, name="run"),
    path("runs/<int:pk>/log", views.run_log, name="run-log"),
    path("runs/<int:pk>/reproduce.sh", views.run_script, name="run-script"),
    path("profiles/<int:pk>.folded", views.profile_folded, name="profile-folded"),
    path("queue/", views.queue, name="queue"),
    path("machines/<slug:name>/", views.machine, name="machine"),
    path("machines/<slug:name>.json", views.machine_values, name="machine-values"),
    path("settings/notifications/", notifications.own_notifications, name="notifications"),
    path("notifications/<str:token>/", notifications.address_notifications, name="notifications-of"),
    path("unsubscribe/<str:token>/", notifications.unsubscribe, name="unsubscribe"),
    path("login/", LOGIN, name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("healthz", views.healthz, name="healthz"),
    path("hooks/<str:hook_id>", webhooks.hook, name="hook"),
    path("api/runner/", runner_api.urls),
]
