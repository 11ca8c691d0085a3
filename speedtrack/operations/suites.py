"""What operators do with suites in the browser."""

from speedtrack.benchmarks import suiteedits
from speedtrack.operations.performing import Actor, Done, operation


@operation("suite.save")
def save(actor: Actor, name: str, text: str, seen: str) -> Done:
    """Save a version of a suite. ``seen``: the version that was edited. Raises NotSaved and DefinitionError."""
    edit = suiteedits.save_edit(name, text, actor.person, seen)
    sentence = (
        f"version {edit.number} of {name} is saved: commits that are queued from now on are measured with it. "
        "To undo it, restore an earlier version, or the file"
    )
    return Done(sentence, name, {"version": (None, edit.number)})


@operation("suite.save")
def set_trials(actor: Actor, name: str, trials: int, seen: str = "") -> Done:
    """Save a version that differs in its trials only. ``seen``: the version that it is to follow, else the newest one.

    Raises NotSaved and DefinitionError.
    """
    edit, before = suiteedits.set_trials(name, trials, actor.person, seen or suiteedits.version_of(name))
    sentence = (
        f"version {edit.number} of {name} is saved, with {trials} trials instead of {before}: it holds for commits "
        "that are queued from now on, and no line ends. To undo it, restore an earlier version, or the file"
    )
    return Done(sentence, name, {"version": (None, edit.number), "trials": (before, trials)})


@operation("suite.return-to-file")
def return_to_file(actor: Actor, name: str, seen: str) -> Done:
    """Put the file of a suite in force again. Raises NotSaved and DefinitionError."""
    suiteedits.return_to_file(name, actor.person, seen)
    return Done(f"the file {name}.toml is in force again. To undo it, restore an earlier version", name)
