"""The HTTP calls of runners (docs/result-format.md). Each parses, calls one verb, and answers."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.security import HttpBearer

from speedtrack.projects import git
from speedtrack.projects.errors import GitFailed, RepositoryError, RepositoryUnreachable
from speedtrack.runs import builds, jobs, profiles, queue, results
from speedtrack.runs.documents import (
    BuildReport,
    Claim,
    Failure,
    Hello,
    Leased,
    LogPiece,
    ProfileDocument,
    Renewal,
    ResultDocument,
)
from speedtrack.runs.models import Machine, UnknownToken

Answer = dict[str, Any]


class MachineToken(HttpBearer):
    """``Authorization: Bearer <machine token>``; the machine becomes ``request.auth``."""

    def authenticate(self, request: HttpRequest, token: str) -> Machine:
        machine = Machine.of_token(token)
        machine.note_call()
        return machine


api = NinjaAPI(title="SpeedTrack runner API", urls_namespace="runner", auth=MachineToken(), docs_url=None)


class MachineRequest(HttpRequest):
    auth: Machine


@api.post("hello")
def hello(request: MachineRequest, hello: Hello) -> Answer:
    machine = request.auth
    Machine.objects.filter(pk=machine.pk).update(runner_version=hello.version, facts=hello.facts)
    return {"machine": machine.name, "queue": machine.queue}


@api.post("claim")
def claim(request: MachineRequest, claim: Claim) -> HttpResponse:
    run = queue.claim(request.auth, claim.instance)
    return JsonResponse(jobs.job_document(run)) if run else HttpResponse(status=204)


@api.post("runs/{run_id}/renew")
def renew(request: MachineRequest, run_id: int, renewal: Renewal) -> Answer:
    cancelled = queue.renew(request.auth, run_id, renewal)
    return {"lease_s": queue.lease_s(), "cancel": cancelled}


@api.post("runs/{run_id}/log")
def log(request: MachineRequest, run_id: int, piece: LogPiece) -> Answer:
    queue.keep_log(request.auth, run_id, piece)
    return {}


@api.post("runs/{run_id}/build")
def build(request: MachineRequest, run_id: int, report: BuildReport) -> Answer:
    linked = builds.accept_build(request.auth, run_id, report)
    return {"linked": {"run": linked.pk, "sha": linked.commit.sha} if linked else None}


@api.post("runs/{run_id}/measurement")
def measurement(request: MachineRequest, run_id: int, result: ResultDocument) -> Answer:
    results.accept_result(request.auth, run_id, result)
    return {}


@api.post("runs/{run_id}/profile")
def profile(request: MachineRequest, run_id: int, profile: ProfileDocument) -> Answer:
    profiles.accept_profile(request.auth, run_id, profile)
    return {}


@api.post("runs/{run_id}/complete")
def complete(request: MachineRequest, run_id: int, leased: Leased) -> Answer:
    queue.complete(request.auth, run_id, leased.token)
    return {}


@api.post("runs/{run_id}/fail")
def fail(request: MachineRequest, run_id: int, failure: Failure) -> Answer:
    queue.fail(request.auth, run_id, failure)
    return {}


@api.get("runs/{run_id}/source/{sha}")
def source(request: MachineRequest, run_id: int, sha: str, token: int) -> StreamingHttpResponse:
    """The files of one side's commit of a held run, as a tar."""
    run = queue.held_run_unlocked(request.auth, run_id, token)
    if sha not in {run.commit.sha, run.base.sha if run.base else None}:
        raise RepositoryError(f"run {run_id} does not build {sha}")
    return StreamingHttpResponse(git.archive(run.project.slug, sha), content_type="application/x-tar")


ANSWERS: dict[type[Exception], int] = {
    UnknownToken: 401,
    queue.NoSuchRun: 404,
    queue.LeaseLost: 409,
    queue.Occupied: 403,
    queue.Incomplete: 422,
    results.Contradiction: 409,
    results.ResultError: 422,
    RepositoryError: 422,
    RepositoryUnreachable: 503,  # git took too long or failed, which is not the commit's fault: the runner asks again
    GitFailed: 503,
}


def error_handler(status: int) -> Any:
    def handler(request: HttpRequest, error: Exception) -> HttpResponse:
        return JsonResponse({"error": str(error)}, status=status)

    return handler


for kind, status in ANSWERS.items():
    api.exception_handler(kind)(error_handler(status))


@api.exception_handler(AuthenticationError)
def refuse_no_token(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return JsonResponse({"error": "no machine token: send `Authorization: Bearer <token>`"}, status=401)


@api.exception_handler(ValidationError)
def refuse_wrong_document(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """422 with the wrong places of the document, and what is expected there."""
    places = [f"{place_in_document(e['loc'])}: {e['msg']}" for e in error.errors]
    return JsonResponse({"error": "; ".join(places[:10])}, status=422)


def place_in_document(location: tuple[str | int, ...]) -> str:
    """A place in the body (pydantic's location begins with the name of the argument), or a part of the address."""
    where, *parts = location
    return ".".join(str(part) for part in (parts[1:] if where == "body" else parts)) or "document"


@api.exception_handler(HttpError)
def refuse_not_json(request: HttpRequest, error: HttpError) -> HttpResponse:
    return JsonResponse({"error": f"document: {error}: send JSON in UTF-8"}, status=422)
