"""The kinds of failure. Transient is the default; Permanent is said on purpose, with cause and remedy."""


class RunnerError(Exception):
    """Anything that ends a run early; the text is one line with the cause and the remedy."""

    kind = "transient"


class Transient(RunnerError):
    """Another attempt of the same run may succeed."""


class Stopped(RunnerError):
    """The runner was told to stop, and hands the run back unharmed."""

    kind = "stopped"


class Permanent(RunnerError):
    """Another attempt would fail in the same way."""

    kind = "permanent"


class LeaseLost(RunnerError):
    """The run belongs to somebody else now: stop the work and drop it, say nothing."""


class Cancelled(RunnerError):
    """The server asked to stop this run: stop the work and drop it, say nothing."""


class Unauthorized(RunnerError):
    """The server does not know the token of this machine."""

    kind = "permanent"


class BenchmarkFailed(Permanent):
    """One benchmark cannot be measured; the others of the run can."""


class SettingsError(Exception):
    """The runner cannot start; the text is one line with the cause and the remedy."""
