from speedtrack.alerts.tests.conftest import steady, world  # noqa: F401  (fixtures)
