"""All Celery tasks, so everything that happens automatically. Each finds its own work, and may run twice at once.

A module per process, named as in ``devstack.PROCESSES``: a process imports what it does, and no more. Tasks have names
that do not depend on their module, because the dispatcher and the workers of two releases run beside each other during
an upgrade.
"""

from speedtrack.monitoring import tasktimes  # noqa: F401 - it listens to Celery's signals
