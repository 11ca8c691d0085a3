"""Claims runs, executes them and reports how they ended, until there is no work."""

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from structlog.contextvars import bound_contextvars

from runners import failpoints, traces
from runners.documents import Job, RunKey, parse, parse_job
from runners.errors import Cancelled, LeaseLost, Permanent, RunnerError, Stopped, Unauthorized, one_line
from runners.measuring.tools import Tools
from runners.processes.control import Control, boottime
from runners.reporting.client import Client
from runners.reporting.lease import Lease
from runners.reporting.runlog import RunLog
from runners.work.execution import Execution
from runners.work.space import Space

log = logging.getLogger(__name__)

LONGEST_ERROR = 2000


class Agent:
    """Does the work of one machine, one run at a time, until `stopping` is set, or after a run if `draining` is."""

    def __init__(
        self,
        tools: Tools,
        stopping: threading.Event,
        after_run: Callable[[], None] = lambda: None,
        space: Space | None = None,
    ) -> None:
        self.tools = tools
        self.client: Client = tools.client
        self.stopping = stopping
        self.draining = threading.Event()
        self.at_work = False  # true once its cores are free: before that, nothing is lost if it ends
        self.after_run = after_run
        self.space = space

    def work(self) -> int:
        """Executes runs until there is none; returns how many. Raises Unreachable, Unauthorized and WrongVersion."""
        self.tools.heartbeat.start()
        try:
            return self._work()
        finally:
            if self.draining.is_set():
                self.stopping.set()

    def _work(self) -> int:
        count = 0
        while not self._is_ending():
            self.client.flush()
            if not self._has_space():
                return count
            with ExitStack() as cores:
                claimed = self.client.retried(lambda: self._claim(cores))
                if claimed is None:
                    return count
                self._take(*claimed)
                self.after_run()
            count += 1
        return count

    def _has_space(self) -> bool:
        """Returns whether there is space on the disk. If not, logs and reports it, and the runner takes no run."""
        lack = self.space.lack() if self.space else ""
        if self.space and lack:
            with suppress(OSError):
                self.after_run()  # the store may fill the disk
            self.space.make_room()
            lack = self.space.lack()
        if self.tools.heartbeat.unable(lack):
            log.log(
                logging.ERROR if lack else logging.INFO, "%s", lack or "there is space again: the runner takes work"
            )
        return not lack

    def _claim(self, cores: ExitStack) -> tuple[dict[str, Any], float] | None:
        """A job and the time of its claim; the cores are held until the stack is closed. None: no work."""
        with ExitStack() as reservation:
            if self._is_ending() or not reservation.enter_context(self.tools.hold(self.stopping)):
                return None
            reservation.callback(self._rest)
            self.at_work = True
            claimed_at = boottime()
            document = self.client.claim()
            if document is None:
                return None
            failpoints.reach("claim.received")
            cores.enter_context(reservation.pop_all())
            return document, claimed_at

    def _rest(self) -> None:
        self.at_work = False

    def _is_ending(self) -> bool:
        return self.stopping.is_set() or self.draining.is_set()

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
        subject: dict[str, int | str] = {"run": job.run, "attempt": job.attempt, "project": job.project}
        with bound_contextvars(**subject), traces.span(f"run: {job.reason}", **subject):
            self._execute(job, claimed_at)

    def _execute(self, job: Job, claimed_at: float) -> None:
        control = Control(self.stopping)
        run_log = RunLog(self.client, job.run, job.token)
        try:
            cpus = self._housekeeping(job.server.cores)
            with Lease(self.tools.heartbeat, job, control, claimed_at, cpus) as lease:
                self._finish(
                    job, control, run_log, Execution(job, self.tools, control, run_log, lease.show, self.space)
                )
        finally:
            control.close()

    def _housekeeping(self, servers: int) -> frozenset[int]:
        """The CPUs of the heartbeat.

        If the machine has too few cores for the run, the run soon fails with that reason.
        """
        planner, usual = self.tools.machine.planner, self.tools.machine.placement
        try:
            return planner.plan(servers).housekeeping
        except Permanent:
            return usual.housekeeping

    def _finish(self, job: Job, control: Control, run_log: RunLog, execution: Execution) -> None:
        """Runs the work and reports how it ended, while the lease is kept."""
        error = failure_of(execution.run)
        run_log.close()
        try:
            control.check()
        except RunnerError as aborted:
            error = aborted
        if self.space and error and not isinstance(error, (LeaseLost, Cancelled, Unauthorized, Stopped)):
            error = self.space.cause_of(error.__cause__ or error) or error
        self._report(job, error, execution.out_of_reach)

    def _report(self, job: Job, error: RunnerError | None, out_of_reach: dict[str, str]) -> None:
        try:
            match error:
                case None:
                    self.client.complete(job.run, job.token, out_of_reach)
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
    """The error that ended the work; None if it succeeded.

    An unexpected error is transient, and its traceback is logged.
    """
    try:
        work()
    except RunnerError as error:
        return error
    except Exception as error:
        log.exception("an unexpected error")
        failure = RunnerError(f"{type(error).__name__}: {error}")
        failure.__cause__ = error
        return failure
    return None
