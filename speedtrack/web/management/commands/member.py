"""``manage.py member list|add|remove PROJECT [USER]``: who has which role in a project."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from speedtrack.accounts import audit, members
from speedtrack.accounts.models import Role
from speedtrack.projects.models import Project
from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "List the members of a project, make somebody one (or give another role), or remove somebody."
    is_atomic = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["list", "add", "remove"])
        parser.add_argument("project", help="name of the project")
        parser.add_argument("user", nargs="?", help="name of the account")
        parser.add_argument("--role", choices=Role.values, help="add: which (default: reader)")

    def handle(self, *args: Any, **options: Any) -> None:
        action, name = options["action"], options["user"]
        if action != "list" and not name:
            raise CommandError(f"name the account: manage.py member {action} {options['project']} USER")
        try:
            project = naming.project_named(options["project"])
            if action == "list":
                self.list_members(project)
            elif action == "add":
                self.add(project, name, Role(options["role"] or Role.READER))
            else:
                self.remove(project, name)
        except (NoSuchThing, members.MembershipRefused) as e:
            raise CommandError(str(e)) from e

    def list_members(self, project: Project) -> None:
        self.stdout.write(f"{project} is {'public' if project.is_public else 'private'}")
        for membership in project.memberships.select_related("user").order_by("user__username"):
            self.stdout.write(f"{membership.user.username:30} {membership.role:12} since {membership.created:%Y-%m-%d}")

    def add(self, project: Project, name: str, role: Role) -> None:
        user = members.user_named(name)
        before, after = members.give_role(project, user, role)
        audit.note(None, "member.change" if before else "member.add", user, project, {"role": (before, after)})
        self.stdout.write(f"{user} is {after} of {project}")

    def remove(self, project: Project, name: str) -> None:
        user = members.user_named(name)
        before = members.remove(project, user)
        audit.note(None, "member.remove", user, project, {"role": (before, None)})
        self.stdout.write(f"{user} is no member of {project} any more")
