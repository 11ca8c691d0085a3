"""Addresses of commits, comparisons and files on the forge that hosts a repository, where it is known."""

import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit


@dataclass(frozen=True)
class Paths:
    """The paths of a forge below a repository, and the fragment for lines of a file.

    ``diff`` is empty for one that compares no two commits.
    """

    commit: str
    file: str
    diff: str
    lines: str = "L{first}-L{last}"


GITHUB = Paths("commit/{sha}", "blob/{sha}/{path}", "compare/{base}...{head}")
GITLAB = Paths("-/commit/{sha}", "-/blob/{sha}/{path}", "-/compare/{base}...{head}", "L{first}-{last}")
GITEA = Paths("commit/{sha}", "src/commit/{sha}/{path}", "compare/{base}...{head}")
BITBUCKET = Paths("commits/{sha}", "src/{sha}/{path}", "branches/compare/{head}..{base}", "lines-{first}:{last}")
SOURCEHUT = Paths("commit/{sha}", "tree/{sha}/item/{path}", "", "L{first}-{last}")
#: By a pattern of the host's name; a forge of one's own is known by the name of its software.
FORGES = (
    (re.compile(r"github\.com"), GITHUB),
    (re.compile(r"(.+\.)?gitlab\..+"), GITLAB),
    (re.compile(r"codeberg\.org|(.+\.)?(gitea|forgejo)\..+"), GITEA),
    (re.compile(r"bitbucket\.org"), BITBUCKET),
    (re.compile(r"git\.sr\.ht"), SOURCEHUT),
)


@dataclass(frozen=True)
class ForgePages:
    """The web pages of one repository."""

    root: str
    paths: Paths

    def commit(self, sha: str) -> str:
        return f"{self.root}/{self.paths.commit.format(sha=sha)}"

    def file(self, sha: str, path: str) -> str:
        return f"{self.root}/{self.paths.file.format(sha=sha, path=quote(path))}"

    def lines(self, sha: str, path: str, first: int, last: int) -> str:
        """The address of a file at a commit, with these lines marked."""
        return f"{self.file(sha, path)}#{self.paths.lines.format(first=first, last=last)}"

    def diff(self, base: str, head: str) -> str:
        return f"{self.root}/{self.paths.diff.format(base=base, head=head)}" if self.paths.diff else ""


def forge_of(url: str) -> ForgePages | None:
    """The forge of a repository's address; None for one that is not known."""
    address = urlsplit(url)
    if address.scheme != "https" or not address.hostname:
        return None
    root = f"https://{address.netloc}{address.path.rstrip('/').removesuffix('.git')}"
    return next((ForgePages(root, paths) for pattern, paths in FORGES if pattern.fullmatch(address.hostname)), None)
