"""Every URL on one screen."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from speedtrack.api import webhooks
from speedtrack.api.runner import api as runner_api
from speedtrack.web import (
    alertviews,
    channels,
    compareviews,
    doorviews,
    feeds,
    frontviews,
    helpviews,
    ladderviews,
    notifications,
    timelineviews,
    views,
)
from speedtrack.web.requests.login import LoginForm
from speedtrack.web.settings import annotations, machines, overview, projects, suites

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
    path("p/<slug:slug>.json", views.project_values, name="project-values"),
    path(LINE, timelineviews.timeline, name="timeline"),
    path(f"{LINE}.<str:form>", timelineviews.timeline_values, name="timeline-values"),
    path("p/<slug:slug>/lines.json", timelineviews.lines, name="lines"),
    path("p/<slug:slug>/releases/", ladderviews.releases, name="releases"),
    path("p/<slug:slug>/releases.atom", feeds.releases_feed, name="releases-feed"),
    path("p/<slug:slug>/releases.<str:form>", ladderviews.releases_values, name="releases-values"),
    path("p/<slug:slug>/compare/", compareviews.compare, name="compare"),
    path("p/<slug:slug>/compare.<str:form>", compareviews.compare_values, name="compare-values"),
    path("p/<slug:slug>/compare/measure/", compareviews.compare_measure, name="compare-measure"),
    path("p/<slug:slug>/latency/<str:benchmark>/", compareviews.latency, name="latency"),
    path("ladders/", ladderviews.ladders, name="ladders"),
    path("ladders.<str:form>", ladderviews.ladders_values, name="ladders-values"),
    path("p/<slug:slug>/c/<str:sha>/", views.commit, name="commit"),
    path("p/<slug:slug>/alerts/", alertviews.alerts, name="alerts"),
    path("alerts/", alertviews.alerts, name="all-alerts"),
    path("p/<slug:slug>/alerts.json", alertviews.alerts_values, name="alerts-values"),
    path("alerts.json", alertviews.alerts_values, name="all-alerts-values"),
    path("p/<slug:slug>/alerts.atom", feeds.alerts_feed, name="alerts-feed"),
    path("alerts.atom", feeds.alerts_feed, name="all-alerts-feed"),
    path("p/<slug:slug>/changes.atom", feeds.changes_feed, name="changes-feed"),
    path("p/<slug:slug>/badge.<str:form>", doorviews.badge, name="badge"),
    path(f"embed/{LINE}", doorviews.embed, name="embed"),
    path(f"cards/{LINE}.png", doorviews.timeline_card, name="timeline-picture"),
    path("cards/p/<slug:slug>.png", doorviews.project_card, name="project-picture"),
    path("cards/alerts/<int:pk>.png", doorviews.alert_card, name="alert-picture"),
    path("p/<slug:slug>/channels/", channels.list_channels, name="channels"),
    path("p/<slug:slug>/channels/add/<str:kind>/", channels.add_channel, name="channel-add"),
    path("p/<slug:slug>/channels/<int:pk>/", channels.change_channel, name="channel"),
    path("p/<slug:slug>/channels/<int:pk>/<str:action>", channels.act_on_channel, name="channel-act"),
    path("alerts/decide/", alertviews.decide_alerts, name="alert-decide"),
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
    path("search/", frontviews.search, name="search"),
    path("search.json", frontviews.search_values, name="search-values"),
    path("machines/", frontviews.machines, name="machines"),
    path("machines/<slug:name>/", views.machine, name="machine"),
    path("machines/<slug:name>.json", views.machine_values, name="machine-values"),
    path("settings/", projects.list_projects, name="settings"),
    path("settings/track/", projects.track, name="track"),
    path("settings/track/check", projects.check_address, name="track-check"),
    path("p/<slug:slug>/settings/", projects.project_settings, name="project-settings"),
    path("p/<slug:slug>/settings/secret", projects.rotate_secret, name="project-secret"),
    path("p/<slug:slug>/settings/untrack/", projects.untrack, name="project-untrack"),
    path("p/<slug:slug>/settings/<str:action>", projects.change_tracking, name="project-act"),
    path("settings/suites/", suites.list_suites, name="suites"),
    path("settings/new-suite/", suites.new_suite, name="suite-new"),
    path("settings/check-suite", suites.check_suite, name="suite-check"),
    path("settings/suites/<str:name>/", suites.edit_suite, name="suite"),
    path("settings/suites/<str:name>/file", suites.return_to_file, name="suite-file"),
    path("settings/suites/<str:name>/<int:number>/", suites.suite_version, name="suite-version"),
    path("settings/suites/<str:name>/<int:number>/restore", suites.restore_version, name="suite-restore"),
    path("settings/machines/", machines.list_machines, name="machine-settings"),
    path("settings/machines/<slug:name>/token", machines.renew_token, name="machine-token"),
    path("settings/machines/<slug:name>/return", machines.return_to_service, name="machine-return"),
    path("settings/machines/<slug:name>/<str:action>", machines.act_on_machine, name="machine-act"),
    path("settings/installation/", overview.installation, name="installation"),
    path("p/<slug:slug>/annotations/", annotations.annotations, name="annotations"),
    path("annotations/", annotations.annotations, name="all-annotations"),
    path("annotations/<int:pk>/", annotations.change_annotation, name="annotation"),
    path("annotations/<int:pk>/delete", annotations.delete_annotation, name="annotation-delete"),
    path("settings/notifications/", notifications.own_notifications, name="notifications"),
    path("notifications/<str:token>/", notifications.address_notifications, name="notifications-of"),
    path("unsubscribe/<str:token>/", notifications.unsubscribe, name="unsubscribe"),
    path("help/", helpviews.help_index, name="help-index"),
    path("help/<slug:name>/", helpviews.help_page, name="help"),
    path("login/", LOGIN, name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("healthz", views.healthz, name="healthz"),
    path("hooks/<str:hook_id>", webhooks.hook, name="hook"),
    path("api/runner/", runner_api.urls),
]
