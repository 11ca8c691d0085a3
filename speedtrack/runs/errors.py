"""What verbs raise when something that was named does not exist."""


class NoSuchThing(Exception):
    """The named thing does not exist, or exists already; the message lists what exists."""


class NoSuchMachine(NoSuchThing):
    """No machine can measure what was asked for; the message says why, and the remedy."""


class NoSuchBenchmark(NoSuchThing):
    """The suite does not have one of the named benchmarks; the message lists those that it has."""


class NoBase(Exception):
    """There is no commit to profile a run against; the message says why."""
