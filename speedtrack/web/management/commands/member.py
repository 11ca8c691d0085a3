"""``manage.py member list|add|remove PROJECT [USER]``: who has which role in a project."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from speedtrack.accounts import members
from speedtrack.accounts.models import Role
from speedtrack.operations import projects
from speedtrack.operations.performing import Actor
from speedtrack.projects.models import Project
from speedtrack.runs import naming
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "List the members of a project, make somebody one (or give another role), or remove somebody."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["list", "add", "remove"])
        parser.add_argument("project", help="name of the project")
        parser.add_argument("user", nargs="?", help="name of the account")
        parser.add_argument("--role", choices=Role.values, help="add: which (default: reader)")

    def handle(self, *args: Any, **options: Any) -> None:
        action, name = options["action"], options["user"]
        if action != "list" and not name:
            raise CommandError(f"name the account: manage.py member {action} {options['project']} USER")
        project = naming.project_named(options["project"])
        if action == "list":
            self.list_members(project)
            return
        user = members.user_named(name)
        if action == "remove":
            result = projects.remove_member(Actor(), project, user)
        else:
            verb = projects.change_member if project.memberships.filter(user=user).exists() else projects.add_member
            result = verb(Actor(), project, user, Role(options["role"] or Role.READER))
        self.stdout.write(str(result))

    def list_members(self, project: Project) -> None:
        self.stdout.write(f"{project} is {'public' if project.is_public else 'private'}")
        for membership in project.memberships.select_related("user").order_by("user__username"):
            self.stdout.write(f"{membership.user.username:30} {membership.role:12} since {membership.created:%Y-%m-%d}")
