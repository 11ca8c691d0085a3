"""The artifacts of a canary: exactly those of its first build."""

import time
from collections.abc import Callable, Mapping

from runners.build import Build
from runners.build.store import ArtifactStore
from runners.documents import Side, digest_of
from runners.errors import Permanent


def frozen_build(
    store: ArtifactStore, side: Side, frozen: Mapping[str, str] | None, build: Callable[[], Build]
) -> Build:
    """The frozen artifacts (name -> digest) from the store, or built again if one is missing; they are pinned.

    `frozen` is None for the first build, which freezes its artifacts. Raises Permanent if building again gives
    different ones.
    """
    begin = time.monotonic()
    if frozen and (artifacts := store.all_of(frozen)):
        store.pin_only(frozen.values())
        recipe_digest = digest_of({"frozen": dict(frozen)})
        return Build(side.side, side.sha, True, time.monotonic() - begin, recipe_digest, artifacts)
    built = build()
    if built.succeeded:
        refuse_others(built, frozen or {})
        store.pin_only(artifact.digest for artifact in built.artifacts.values())
    return built


def refuse_others(build: Build, frozen: Mapping[str, str]) -> None:
    """Raises Permanent naming each artifact that differs from the frozen one.

    With `frozen` empty, any artifact is allowed.
    """
    built = {name: artifact.digest for name, artifact in build.artifacts.items()}
    differences = [
        f"{name} is {built.get(name, 'missing')}, frozen was {frozen.get(name, 'none')}"
        for name in sorted(built.keys() | frozen.keys())
        if built.get(name) != frozen.get(name)
    ]
    if frozen and differences:
        raise Permanent(
            f"the canary's server was lost, and building {build.sha[:12]} again gave another one: "
            f"{'; '.join(differences)}. `manage.py machine canary NAME` freezes a new one"
        )
