"""A canary's run on the runner's side: the first build freezes, later ones measure exactly that, or nothing."""

from typing import Any

from runners.build.store import StoreLimits
from runners.measuring.tools import Tools
from runners.tests.api import Api
from runners.tests.conftest import SHA, TREE, make_job
from runners.work.agent import Agent


def canary(frozen: dict[str, str] | None = None) -> dict[str, Any]:
    return make_job(reason="canary", frozen=frozen, trials=1)


def freeze(api: Api, agent: Agent) -> dict[str, str]:
    """What the first run of the canary was made of."""
    api.jobs = [canary()]
    agent.work()
    artifacts = api.bodies("/build")[0]["build"]["artifacts"]
    return {name: artifact["digest"] for name, artifact in artifacts.items()}


def test_the_frozen_artifacts_outlive_their_build_and_their_source(api: Api, agent: Agent, tools: Tools) -> None:
    frozen = freeze(api, agent)
    cache = tools.builder.store
    cache.limits = StoreLimits(size_bytes=0, age_s=0)
    cache.prune()
    api.sources = {}
    api.jobs = [canary(frozen)]
    agent.work()
    assert len(api.bodies("/complete")) == 2
    build = api.bodies("/build")[1]["build"]
    assert build["cached"] and {name: one["digest"] for name, one in build["artifacts"].items()} == frozen
    assert api.bodies("/measurement")[1]["artifacts"] == frozen


def test_a_lost_artifact_is_built_again_if_that_gives_the_same(api: Api, agent: Agent, tools: Tools) -> None:
    frozen = freeze(api, agent)
    (digest,) = frozen.values()
    tools.builder.store._path(digest).unlink()
    api.jobs = [canary(frozen)]
    agent.work()
    assert len(api.bodies("/complete")) == 2
    assert not api.bodies("/build")[1]["build"]["cached"]
    assert tools.builder.store.pinned() == {digest}


def test_another_artifact_than_the_frozen_one_is_refused(api: Api, agent: Agent, tools: Tools) -> None:
    frozen = {"tiny": "sha256:" + "0" * 64}
    api.jobs = [canary(frozen)]
    agent.work()
    (failure,) = api.bodies("/fail")
    assert failure["kind"] == "permanent"
    assert "gave another one: tiny is sha256:" in failure["error"]
    assert f"frozen was {frozen['tiny']}" in failure["error"] and "manage.py machine canary" in failure["error"]
    assert api.bodies("/measurement") == []
    assert tools.builder.store.pinned() == set()


def test_another_canary_replaces_the_pins_of_the_first(api: Api, agent: Agent, tools: Tools) -> None:
    (first,) = freeze(api, agent).values()
    api.sources[SHA] = {**TREE, "Makefile": TREE["Makefile"].replace("-O2", "-O1")}
    tools.builder.store.limits = StoreLimits(size_bytes=0, age_s=0)
    tools.builder.store.prune()
    api.jobs = [canary()]
    agent.work()
    (second,) = tools.builder.store.pinned()
    assert second != first
