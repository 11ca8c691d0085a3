"""The project that a command is about."""

import os

from speedtrack_client import repositories
from speedtrack_client.arguments import Options
from speedtrack_client.calls import Api, JsonObject, plain
from speedtrack_client.failures import misused

PROJECT = "SPEEDTRACK_PROJECT"


class ProjectOfCommand:
    """A project, and whether it tracks the repository of the current directory."""

    def __init__(self, api: Api, options: Options) -> None:
        name = options.project or os.environ.get(PROJECT)
        self.project: JsonObject = api.get(f"projects/{segment(name)}") if name else self.of_directory(api)
        self.is_here = repositories.normal(self.project["repository"]) in repositories.remotes()

    @staticmethod
    def of_directory(api: Api) -> JsonObject:
        """The project of this directory's repository. Raises Failure."""
        addresses = repositories.addresses()
        projects = repositories.projects_of(addresses, api.some("projects", tracked="true"))
        if not projects:
            if not addresses:
                why = plain(repositories.why_without_remotes())
                raise misused(f"the project cannot be found, as {why}: give --project NAME")
            raise misused(f"no project of {api.login.url} tracks {plain(' or '.join(addresses))}: give --project NAME")
        if len(projects) > 1:
            names = ", ".join(plain(str(project["slug"])) for project in projects)
            raise misused(f"several projects of {api.login.url} track this repository ({names}): give --project NAME")
        return projects[0]

    @property
    def slug(self) -> str:
        return str(self.project["slug"])

    def commit(self, name: str) -> str:
        """The full id of the commit with this name in the local repository; without one the name, for the server."""
        if self.is_here or repositories.is_own(name):
            sha = repositories.commit_of(name)
            if sha is None and repositories.is_own(name):
                raise misused(f"{name} is no commit here: {plain(repositories.why_no_commit(name))}")
            return sha or name
        return name

    def range(self, text: str) -> str:
        first, dots, last = text.partition("..")
        return f"{self.commit(first)}..{self.commit(last)}" if dots else self.commit(text)


def segment(name: str) -> str:
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise misused(f"{name[:100]!r} is no name of a project")
    return name


def page(api: Api, path: str) -> str:
    return f"{api.login.url}/{path}"
