"""The artifacts of a canary: exactly those of its first build."""

import time
from collections.abc import Callable, Mapping

from runners.build import Artifact, Build
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
    if frozen and (artifacts := stored_artifacts(store, frozen)):
        pin_only(store, artifacts)
        recipe_digest = digest_of({"frozen": dict(frozen)})
        return Build(side.side, side.sha, True, time.monotonic() - begin, recipe_digest, artifacts)
    built = build()
    if built.succeeded:
        refuse_others(built, frozen or {})
        pin_only(store, built.artifacts)
    return built


def stored_artifacts(store: ArtifactStore, digests: Mapping[str, str]) -> dict[str, Artifact] | None:
    """The artifacts of these digests, each checked; None if one is missing or damaged."""
    found = {name: store.artifact(digest) for name, digest in digests.items()}
    return {name: one for name, one in found.items() if one} if all(found.values()) else None


def pin_only(store: ArtifactStore, artifacts: Mapping[str, Artifact]) -> None:
    """Pins these artifacts, and unpins those of an earlier canary."""
    digests = {one.digest for one in artifacts.values()}
    if store.pinned() != digests:
        store.pin(digests)
        store.unpin(store.pinned() - digests)


def refuse_others(build: Build, frozen: Mapping[str, str]) -> None:
    """Raises Permanent naming each artifact that differs from the frozen one.

    With `frozen` empty, any artifact is allowed.
    """
    built = {name: one.digest for name, one in build.artifacts.items()}
    others = [
        f"{name} is {built.get(name, 'missing')}, frozen was {frozen.get(name, 'none')}"
        for name in sorted(built.keys() | frozen.keys())
        if built.get(name) != frozen.get(name)
    ]
    if frozen and others:
        raise Permanent(
            f"the canary's server was lost, and building {build.sha[:12]} again gave another one: "
            f"{'; '.join(others)}. `manage.py machine canary NAME` freezes a new one"
        )
