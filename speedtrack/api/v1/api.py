"""All operations of the API, by subject."""

from speedtrack.api.v1.alerts import alerts, bisections
from speedtrack.api.v1.measurements import comparing, evidence, files, measuring, results
from speedtrack.api.v1.projects import annotations, operating, projects
from speedtrack.api.v1.runs import gates, runs
from speedtrack.api.v1.serving.service import make_service

#: in the order of the page that documents them
ROUTERS = (
    projects.router,
    measuring.router,
    comparing.router,
    evidence.router,
    bisections.router,
    gates.router,
    alerts.router,
    runs.router,
    operating.router,
    annotations.router,
    results.router,
    files.router,
)

api = make_service("1")
for router in ROUTERS:
    api.add_router("", router)
