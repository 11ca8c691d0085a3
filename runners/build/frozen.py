"""The artifacts of a canary: exactly those of its first build, or nothing is measured."""

import time
from collections.abc import Callable, Mapping

from runners.build import Artifact, Build
from runners.build.cache import Cache
from runners.documents import Side, digest_of
from runners.errors import Permanent


def frozen(cache: Cache, side: Side, wanted: Mapping[str, str] | None, build: Callable[[], Build]) -> Build:
    """The wanted artifacts (name -> digest) from the store, or built again if one is missing; they stay in the store.

    None wanted: this is the first build, which freezes them. Raises Permanent if building again gives others.
    """
    begin = time.monotonic()
    if wanted and (kept := stored(cache, wanted)):
        keep(cache, kept)
        recipe_digest = digest_of({"frozen": dict(wanted)})
        return Build(side.side, side.sha, True, time.monotonic() - begin, recipe_digest, kept)
    built = build()
    if built.succeeded:
        refuse_others(built, wanted or {})
        keep(cache, built.artifacts)
    return built


def stored(cache: Cache, wanted: Mapping[str, str]) -> dict[str, Artifact] | None:
    """The artifacts of these digests, each checked; None if one is missing or damaged."""
    found = {name: cache.artifact(digest) for name, digest in wanted.items()}
    return {name: one for name, one in found.items() if one} if all(found.values()) else None


def keep(cache: Cache, artifacts: Mapping[str, Artifact]) -> None:
    """Pin these, in the place of an earlier canary's."""
    digests = {one.digest for one in artifacts.values()}
    if cache.pinned() != digests:
        cache.pin(digests)
        cache.unpin(cache.pinned() - digests)


def refuse_others(build: Build, wanted: Mapping[str, str]) -> None:
    """Raises Permanent naming each artifact that is not the wanted one, if any are wanted."""
    given = {name: one.digest for name, one in build.artifacts.items()}
    others = [
        f"{name} is {given.get(name, 'missing')}, frozen was {wanted.get(name, 'none')}"
        for name in sorted(given.keys() | wanted.keys())
        if given.get(name) != wanted.get(name)
    ]
    if wanted and others:
        raise Permanent(
            f"the canary's server was lost, and building {build.sha[:12]} again gave another one: "
            f"{'; '.join(others)}. `manage.py machine canary NAME` freezes a new one"
        )
