"""Claims runs, executes them and reports how they ended, until there is no work."""

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from runners.documents import Job, RunKey, parse, parse_job
from runners.errors import Cancelled, LeaseLost, Permanent, RunnerError, Unauthorized, one_line
from runners.measuring.tools import Tools
from runners.processes.control import Control, boottime
from runners.reporting.client import Client
from runners.reporting.lease import Lease
from runners.reporting.runlog import RunLog
from runners.work.execution import Execution

log = logging.getLogger(__name__)

LONGEST_ERROR = 2000


class Agent:
    """Does the work of one machine, one run at a time, until `stopping` is set."""

    def __init__(self, tools: Tools, stopping: threading.Event, after_run: Callable[[], None] = lambda: None) -> None:
        self.tools = tools
        self.client: Client = tools.client
        self.stopping = stopping
        self.after_run = after_run

    def work(self) -> int:
        """Executes runs until there is none; returns how many. Raises Unreachable and Unauthorized."""
        done = 0
        while not self.stopping.is_set():
            self.client.flush()
            with ExitStack() as cores:
                claimed = self.client.retried(lambda: self._claim(cores))
                if claimed is None:
                    return done
                self._take(*claimed)
                self.after_run()
            done += 1
        return done

    def _claim(self, cores: ExitStack) -> tuple[dict[str, Any], float] | None:
        """A job and the time of its claim; the cores are held until the stack is closed. None: no work."""
        with ExitStack() as held:
            if not held.enter_context(self.tools.hold(self.stopping)):
                return None
            claimed_at = boottime()
            document = self.client.claim()
            if document is None:
                return None
            cores.enter_context(held.pop_all())
            return document, claimed_at

    def _take(self, document: dict[str, Any], claimed_at: float) -> None:
        try:
            job = parse_job(document)
        except Permanent as error:
            self._refuse(document, error)
            return
        log.info(
            "run %d: %s, %s of %s, attempt %d",
            job.run,
            job.project,
            job.reason,
            " against ".join(side.sha[:12] for side in job.sides),
            job.attempt,
        )
        self._execute(job, claimed_at)

    def _execute(self, job: Job, claimed_at: float) -> None:
        control = Control(self.stopping)
        run_log = RunLog(self.client, job.run, job.token)
        try:
            with Lease(self.client, job, control, claimed_at) as lease:
                self._finish(job, control, run_log, Execution(job, self.tools, control, run_log, lease.show))
        finally:
            control.close()

    def _finish(self, job: Job, control: Control, run_log: RunLog, execution: Execution) -> None:
        """Runs the work and reports how it ended, while the lease is kept."""
        error = failure_of(execution.run)
        run_log.close()
        try:
            control.check()
        except RunnerError as aborted:
            error = aborted
        self._report(job, error)

    def _report(self, job: Job, error: RunnerError | None) -> None:
        try:
            match error:
                case None:
                    self.client.complete(job.run, job.token)
                    log.info("run %d: complete", job.run)
                case LeaseLost() | Cancelled():
                    log.warning("run %d: dropped: %s", job.run, error)
                case Unauthorized():
                    raise error
                case _:
                    log.warning("run %d: failed (%s): %s", job.run, error.kind, error)
                    self.client.fail(job.run, job.token, error.kind, one_line(error)[:LONGEST_ERROR])
        except (LeaseLost, Permanent) as refusal:
            log.warning("run %d: its end was refused: %s", job.run, refusal)

    def _refuse(self, document: dict[str, Any], error: Permanent) -> None:
        key, message = parse(RunKey, document, "job"), one_line(error)[:LONGEST_ERROR]
        log.error("%s", message)
        try:
            self.client.fail(key.run, key.token, error.kind, message)
        except (LeaseLost, Permanent) as refusal:
            log.warning("the job could not be refused: %s", refusal)


def failure_of(work: Callable[[], None]) -> RunnerError | None:
    """The error that ended the work; None: it succeeded. An unexpected one is transient, its traceback is logged."""
    try:
        work()
    except RunnerError as error:
        return error
    except Exception as error:
        log.exception("an unexpected error")
        return RunnerError(f"{type(error).__name__}: {error}")
    return None
