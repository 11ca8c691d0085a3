from runners.agent import Agent
from runners.tests.api import Api
from runners.tests.conftest import make_benchmark, make_job


def shape(value: object) -> object:
    """The keys and types of a document, recursively; integers and floats are one type, a list is its first item."""
    match value:
        case dict():
            return {key: shape(item) for key, item in value.items()}
        case list():
            return [shape(value[0])] if value else []
        case bool():
            return "truth"
        case int() | float():
            return "number"
        case _:
            return type(value).__name__


def test_a_run_goes_from_claim_to_complete(api: Api, agent: Agent) -> None:
    api.jobs = [make_job(benchmarks=[make_benchmark(), make_benchmark("set-p1", "set")])]
    assert agent.work() == 1
    ends = [call.path.rsplit("/", 1)[-1] for call in api.calls if not call.path.endswith(("/renew", "/log"))]
    assert ends == ["claim", f"{'a' * 40}?token=3", "build", "measurement", "measurement", "complete", "claim"]
    build = api.bodies("/build")[0]["build"]
    assert build["succeeded"] and not build["cached"] and build["artifacts"]["tiny"]["bytes"] > 1000
