"""The HTTP calls of runners (docs/result-format.md). Each parses, calls one verb, and answers."""

import time
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.security import HttpBearer

import speedtrack
from speedtrack.api.answers import BuildAnswer, EnrolledMachine, Job, Nothing, Renewed, RunnerRefusal, Turn, Whose
from speedtrack.api.described import DescribedAPI
from speedtrack.ground.observing import failpoints
from speedtrack.ground.texts.text import NAMED_MISTAKES, beyond_named
from speedtrack.http.clientaddress import client_address
from speedtrack.projects.errors import GitFailed, NoSuchCommit, NotFetched, RepositoryError, RepositoryUnreachable
from speedtrack.projects.mirrors import submodules
from speedtrack.runs.documents import (
    Beat,
    BuildReport,
    Claim,
    Completion,
    Enrolment,
    FailureReport,
    Hello,
    LogPiece,
    ProfileReport,
    Renewal,
    ResultDocument,
    Succession,
)
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import enrolment, machines, tokens
from speedtrack.runs.models import Machine, MachineToken, UnknownMachineToken
from speedtrack.runs.queue import ends, fence, jobs, queue
from speedtrack.runs.results import builds, profiles, results
from speedtrack.runs.scheduling import standing, versions

Answer = dict[str, Any]


class TokenInHeader(HttpBearer):
    """Authenticates by ``Authorization: Bearer <machine token>``; the machine becomes ``request.auth``."""

    def authenticate(self, request: HttpRequest, token: str) -> Machine:
        token_row = MachineToken.of(token)
        token_row.note_call(client_address(request))
        request.used_token = token_row  # type: ignore[attr-defined]
        return token_row.machine


class RunnerAPI(DescribedAPI):
    refusal = RunnerRefusal
    every = (400, 401, 403, 404, 405, 409, 422, 426, 429, 503)
    of_writes = (411, 413)


api = RunnerAPI(title="SpeedTrack runner API", urls_namespace="runner", auth=TokenInHeader(), docs_url=None)


class MachineRequest(HttpRequest):
    auth: Machine
    used_token: MachineToken


@api.post("hello", response=EnrolledMachine)
def hello(request: MachineRequest, hello: Hello) -> Answer:
    machine = request.auth
    release = {"runner_version": hello.version, "runner_protocol": hello.protocol}
    Machine.objects.filter(pk=machine.pk).update(facts=hello.facts, runner_said=None, **release)
    versions.check(hello.version, hello.protocol)
    return {"machine": machine.name, "queue": machine.queue}


@api.get("me", response=Whose)
def me(request: MachineRequest) -> Answer:
    """Answer whose token it is, with this server's release and clock: a runner checks by it whether it could work."""
    return {"machine": request.auth.name, "version": speedtrack.__version__, "time": time.time()}


@api.post("enroll", auth=None, response=EnrolledMachine)
def enroll(request: HttpRequest, enrolment_: Enrolment) -> Answer:
    """Exchange a code for the token that the runner has made."""
    versions.check(enrolment_.version, enrolment_.protocol)
    machine = enrolment.enrol(enrolment_.code, MachineToken.parse(enrolment_.token), client_address(request))
    return {"machine": machine.name, "queue": machine.queue}


@api.post("token", response=Nothing)
def token(request: MachineRequest, succession: Succession) -> Answer:
    """Replace the token of this call by one that the runner has made."""
    tokens.rotate(request.used_token, MachineToken.parse(succession.token))
    return {}


@api.post("beat", response=Turn)
def beat(request: MachineRequest, beat: Beat) -> Answer:
    machines.hear(request.auth, beat)
    return {"rotate": request.used_token.rotation_due}


@api.post("claim", response={200: Job, 204: None})
def claim(request: MachineRequest, claim: Claim) -> HttpResponse:
    versions.check(claim.version or request.auth.runner_version, claim.protocol)
    standing.stop_waiting(request.auth)  # it holds its cores
    run = queue.claim(request.auth, claim.instance)
    failpoints.reach("claim.after_commit")
    return HttpResponse(jobs.job_text(run), content_type="application/json") if run else HttpResponse(status=204)


@api.post("runs/{run_id}/renew", response=Renewed)
def renew(request: MachineRequest, run_id: int, renewal: Renewal) -> Answer:
    cancelled = queue.renew(request.auth, run_id, renewal)
    return {"lease_s": queue.lease_s(), "cancel": cancelled, "rotate": request.used_token.rotation_due}


@api.post("runs/{run_id}/log", response=Nothing)
def log(request: MachineRequest, run_id: int, piece: LogPiece) -> Answer:
    queue.keep_log(request.auth, run_id, piece)
    return {}


@api.post("runs/{run_id}/build", response=BuildAnswer)
def build(request: MachineRequest, run_id: int, report: BuildReport) -> Answer:
    linked = builds.accept_build(request.auth, run_id, report)
    failpoints.reach("build.after_commit")
    return {"linked": {"run": linked.pk, "sha": linked.commit.sha} if linked else None}


@api.post("runs/{run_id}/measurement", response=Nothing)
def measurement(request: MachineRequest, run_id: int, result: ResultDocument) -> Answer:
    results.accept_result(request.auth, run_id, result)
    failpoints.reach("measurement.after_commit")
    return {}


@api.post("runs/{run_id}/profile", response=Nothing)
def profile(request: MachineRequest, run_id: int, profile: ProfileReport) -> Answer:
    profiles.accept_profile(request.auth, run_id, profile)
    return {}


@api.post("runs/{run_id}/complete", response=Nothing)
def complete(request: MachineRequest, run_id: int, completion: Completion) -> Answer:
    queue.complete(request.auth, run_id, completion.token, completion.out_of_reach)
    failpoints.reach("complete.after_commit")
    return {}


@api.post("runs/{run_id}/fail", response=Nothing)
def fail(request: MachineRequest, run_id: int, failure: FailureReport) -> Answer:
    queue.fail(request.auth, run_id, failure)
    failpoints.reach("fail.after_commit")
    return {}


TAR = {"responses": {200: {"content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}}}}}


@api.get("runs/{run_id}/source/{sha}", openapi_extra=TAR)
def source(request: MachineRequest, run_id: int, sha: str, token: int) -> StreamingHttpResponse:
    """The files of the commit on one side of a held run, as a tar."""
    run = fence.held_run_unlocked(request.auth, run_id, token)
    if sha not in {run.commit.sha, run.base.sha if run.base else None}:
        raise RepositoryError(f"run {run_id} does not build {sha}")
    return StreamingHttpResponse(submodules.archive(run.project, sha), content_type="application/x-tar")


ANSWERS: dict[type[Exception], int] = {
    UnknownMachineToken: 401,
    tokens.WrongToken: 422,
    enrolment.CodeRefused: 403,
    enrolment.TooManyCodes: 429,
    NoSuchThing: 422,
    versions.WrongVersion: 426,
    fence.NoSuchRun: 404,
    fence.LeaseLost: 409,
    queue.Occupied: 403,
    ends.Incomplete: 422,
    results.Contradiction: 409,
    results.ResultError: 422,
    RepositoryError: 422,
    RepositoryUnreachable: 503,  # git took too long or failed, which is not the commit's fault: the runner asks again
    GitFailed: 503,
    NoSuchCommit: 503,  # the run's row has it, and the mirror lacks it: after a restore it is cloned anew
    NotFetched: 503,  # likewise
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
    """The answer 422 with the wrong places of the document, and what is expected there."""
    problems = [f"{place_in_document(e['loc'])[:300]}: {e['msg'][:300]}" for e in error.errors[:NAMED_MISTAKES]]
    return JsonResponse({"error": "; ".join([*problems, *beyond_named(len(error.errors))])}, status=422)


def place_in_document(location: tuple[str | int, ...]) -> str:
    """A place in the body or in the address as text. pydantic's location begins with the argument's name."""
    where, *steps = location
    return ".".join(str(step) for step in (steps[1:] if where == "body" else steps)) or "document"


@api.exception_handler(HttpError)
def refuse_not_json(request: HttpRequest, error: HttpError) -> HttpResponse:
    return JsonResponse({"error": f"document: {error}: send JSON in UTF-8"}, status=422)
