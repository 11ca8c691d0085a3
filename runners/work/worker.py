"""The Celery worker of one machine. Its only task is to look for work; the message has no content."""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery import Celery, signals
from celery.exceptions import WorkerShutdown
from celery.worker.consumer import Consumer

from runners.brokers import Broker
from runners.errors import Unauthorized
from runners.probing import let_workers_wait, reason
from runners.processes.signals import outside_handlers

TASK = "speedtrack.look_for_work"


def celery_app(broker: Broker, queue: str) -> Celery:
    """The app of one machine's queue: early ack, no prefetch, no results, endless retries of the broker."""
    app = Celery("speedtrack-runner", set_as_current=False)
    app.conf.update(
        **broker.settings,
        task_queues={queue: {"exchange": queue, "exchange_type": "direct", "routing_key": queue}},
        task_default_queue=queue,
        task_create_missing_queues=False,
        task_acks_late=False,
        worker_disable_prefetch=True,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
        result_backend=None,
        task_serializer="json",
        accept_content=["json"],
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_pool="solo",
        worker_concurrency=1,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
    )
    return app


@dataclass(frozen=True)
class NudgeSource:
    """The source of messages. `show` is called with the reason why none can come; empty: they come again."""

    broker: Broker
    queue: str
    show: Callable[[str], None]


def consumer_of(show: Callable[[str], None]) -> type[Consumer]:
    """Celery's consumer, which reports an unreachable broker, since no message brings work then."""

    class ShowingConsumer(Consumer):  # type: ignore[misc]
        def ensure_connected(self, conn: Any) -> Any:
            try:
                conn.connect()
            except Exception as error:  # each transport has other errors; Celery retries afterwards
                show(f"its broker, which cannot be reached: {reason(error) or type(error).__name__}")
            connected = super().ensure_connected(conn)
            show("")
            return connected

    return ShowingConsumer


def worker_of(app: Celery) -> type[Any]:
    """Celery's worker, which leaves SIGHUP as it is. Celery restarts at it, even where `nohup` has it ignored."""

    class RunnerWorker(app.Worker):  # type: ignore[misc]
        def install_platform_tweaks(self, worker: Any) -> None:
            handler = signal.getsignal(signal.SIGHUP)
            super().install_platform_tweaks(worker)
            signal.signal(signal.SIGHUP, handler)

    return RunnerWorker


def serve(look: Callable[[], None], source: NudgeSource, machine: str, stopping: threading.Event) -> int:
    """Calls `look` for each message, until SIGTERM or SIGINT; returns the exit code.

    Raises Unauthorized when the server no longer accepts the token of this machine.
    """
    let_workers_wait()
    app = celery_app(source.broker, source.queue)
    refusals: list[Unauthorized] = []

    def look_for_work() -> None:
        try:
            look()
        except Unauthorized as error:
            refusals.append(error)
            raise WorkerShutdown(1) from error
        if stopping.is_set():
            raise WorkerShutdown(0)

    stop = outside_handlers(stopping.set)

    def shut_down(**_: Any) -> None:
        stop()  # Celery calls this in its handler of SIGTERM

    app.task(name=TASK, ignore_result=True)(look_for_work)

    def stop_if_signalled_while_starting(**_: Any) -> None:
        if stopping.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    signals.worker_shutting_down.connect(shut_down)
    signals.worker_ready.connect(stop_if_signalled_while_starting)
    worker = worker_of(app)(
        pool="solo",
        concurrency=1,
        queues=[source.queue],
        consumer_cls=consumer_of(source.show),
        hostname=f"runner@{machine}",
        loglevel="INFO",
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()
    if refusals:
        raise refusals[0]
    return int(worker.exitcode or 0)
