"""All Celery tasks, and so all automatic work. Each finds its own work, and may run twice at once.

There is one module per process, named as in ``devstack.PROCESSES``: a process imports only its own tasks. The names of
tasks do not depend on their module, because the dispatcher and the workers of two releases run together during an
upgrade.
"""

from speedtrack.monitoring import tasktimes  # noqa: F401 - it listens to Celery's signals
