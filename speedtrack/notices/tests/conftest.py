from speedtrack.alerts.tests.conftest import world  # noqa: F401  (a fixture)
