"""The Celery app of the server: broker options and queues. Schedules are the dispatcher's, not beat's.

A message is a nudge without meaning: PostgreSQL knows what is to be done. So acknowledgement is early, nothing is
prefetched, nothing is retried, delayed or revoked through the broker, and no result is kept (measured reasons in
ARCHITECTURE.md).
"""

import gc
import os
from typing import Any

from celery import Celery
from celery.signals import celeryd_init, worker_before_create_process, worker_shutting_down
from django.conf import settings
from kombu import Queue

from runners import brokers
from runners.brokers import Broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "speedtrack.settings")

BROKER_TRANSPORT = brokers.REDIS_OPTIONS

#: one queue per duty of the server; a machine has one of its own. The first two wait for git, in a process of their own
DUTIES = ("sync", "poll", "detect", "notify", "prune")


def broker() -> Broker:
    """The broker of BROKER_URL, as settings are now."""
    return brokers.read(settings.BROKER_URL, settings.BROKER_CA_FILE)


app = Celery("speedtrack")
app.conf.update(
    **broker().settings,
    task_acks_late=False,
    task_ignore_result=True,
    task_publish_retry=False,
    task_serializer="json",
    accept_content=["json"],
    task_create_missing_queues=False,
    task_default_queue=DUTIES[0],
    task_queues=[Queue(duty) for duty in DUTIES],
    task_routes={f"speedtrack.tasks.{duty}": {"queue": duty} for duty in DUTIES},
    task_time_limit=3600,
    worker_disable_prefetch=True,
    worker_prefetch_multiplier=1,
    worker_max_tasks_per_child=200,
    worker_soft_shutdown_timeout=30,
    worker_hijack_root_logger=False,
)


@celeryd_init.connect  # type: ignore[untyped-decorator]
def wait_for_login(**event: Any) -> None:
    from runners import probing  # not before: only a worker needs the broker's libraries

    probing.let_workers_wait()


@worker_before_create_process.connect  # type: ignore[untyped-decorator]
def share_memory(**event: Any) -> None:
    """Let a child of the worker share what is loaded: a collection would write to each object, and so copy it."""
    gc.collect()
    gc.freeze()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def end_git(**event: Any) -> None:
    """A worker that is told to stop waits for its tasks, and those may wait for git for a quarter of an hour."""
    from speedtrack.projects.mirrors import (
        gitprocess,  # not before: it needs models, which Django loads after this module
    )

    gitprocess.end_all()
