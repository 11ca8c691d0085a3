"""Members of a project, invitations by link, and who sees it."""

from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from speedtrack.accounts import invitations
from speedtrack.accounts.logins import signup
from speedtrack.accounts.models import Invitation, Membership
from speedtrack.http.clientaddress import client_address
from speedtrack.operations import invitations as operations
from speedtrack.operations import projects
from speedtrack.operations.performing import Actor, Done, bad_input
from speedtrack.projects.models import Project
from speedtrack.web import scope
from speedtrack.web.pages.settings import members as page
from speedtrack.web.requests.operating import actor_of, perform, tell


@require_safe
def list_members(request: HttpRequest, slug: str) -> HttpResponse:
    return members_page(request, scope.project_or_404(slug))


def members_page(
    request: HttpRequest, project: Project, new_invitation: Invitation | None = None, link: str = ""
) -> HttpResponse:
    """``link``: of ``new_invitation``; it is shown this once."""
    context = {"project": project, "page": page.load(project), "made": new_invitation, "link": link}
    response = render(request, "web/members.html", context)
    response["Cache-Control"] = "no-store"
    return response


@require_POST
def act_on_member(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Do one of ACTIONS with a membership."""
    project = scope.project_or_404(slug)
    member = page.membership_or_404(project, number)
    action = request.POST.get("act", "")
    if action not in ACTIONS:
        raise Http404(f"There is no action {action!r}: there are {', '.join(ACTIONS)}.")
    perform(request, ACTIONS[action], member, request.POST, otherwise="Not changed")
    return redirect("members", slug=slug)


def change_role(actor: Actor, member: Membership, form: QueryDict) -> Done:
    with bad_input("role"):
        role = page.role_of(form)
    return projects.change_member(actor, member.project, member.user, role)


def remove_member(actor: Actor, member: Membership, form: QueryDict) -> Done:
    return projects.remove_member(actor, member.project, member.user)


ACTIONS: dict[str, Callable[[Actor, Membership, QueryDict], Done]] = {"change": change_role, "remove": remove_member}


@require_POST
def make_invitation(request: HttpRequest, slug: str) -> HttpResponse:
    """Make an invitation, and show its link in the answer: it is stored in no session or message."""
    project = scope.project_or_404(slug)
    result = perform(request, requested_invitation, project, request.POST, otherwise="Not made")
    if result is None:
        return redirect("members", slug=slug)
    link = request.build_absolute_uri(reverse("invitation", args=[result.secret]))
    return members_page(request, project, result.row, link)


def requested_invitation(actor: Actor, project: Project, form: QueryDict) -> Done:
    with bad_input("role"):
        role, days, uses = page.role_of(form), number_in(form, "days"), number_in(form, "uses")
    return operations.make(actor, project, role, days, uses)


def number_in(form: QueryDict, key: str) -> int:
    text = form.get(key, "").strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise ValueError(f"give a number of {'days' if key == 'days' else 'people'}")
    return int(text)


@require_POST
def revoke_invitation(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    project = scope.project_or_404(slug)
    offer = project.invitations.filter(pk=number).first()
    if offer is None:
        raise Http404(f"{slug} has no invitation {number}.")
    perform(request, operations.revoke, offer)
    return redirect("members", slug=slug)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, code: str) -> HttpResponse:
    """What a link invites to. Only a POST accepts it: programs that check mails follow links."""
    try:
        offer = invitations.find(code, client_address(request))
        if request.method == "POST":
            return accept(request, offer)
    except invitations.TooManyWrongCodes as e:
        return closed_page(request, str(e), 429)
    except invitations.Closed as e:
        return closed_page(request, str(e), 404 if isinstance(e, invitations.Unknown) else 410)
    if not request.user.is_authenticated:
        request.session[signup.INVITATION] = code  # whoever is invited may make an account
    role = offer.project.memberships.filter(user=request.user.pk).values_list("role", flat=True).first()
    context = {"invitation": offer, "may_sign_up": signup.is_open(request), "role": role}
    return render(request, "web/invitation.html", context)


def accept(request: HttpRequest, offer: Invitation) -> HttpResponse:
    """Make the person a member, and show the project. Raises Closed."""
    tell(request, operations.accept(actor_of(request), offer))
    request.session.pop(signup.INVITATION, None)
    return redirect("project", slug=offer.project.slug)


def closed_page(request: HttpRequest, why: str, status: int) -> HttpResponse:
    return render(request, "web/invitation.html", {"why": why}, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def change_visibility(request: HttpRequest, slug: str) -> HttpResponse:
    """Say what making it private or public means, and do it once the name is typed."""
    project, error = scope.project_or_404(slug), ""
    everybody = not project.is_public
    if request.method == "POST" and request.POST.get("to") == ("public" if everybody else "private"):
        if request.POST.get("slug", "").strip() == project.slug:
            perform(request, projects.show_to, project, everybody)
            return redirect("project-settings", slug=slug)
        error = f"Not changed: type {project.slug}, exactly."
    return render(request, "web/visibility.html", {"project": project, "everybody": everybody, "error": error})
