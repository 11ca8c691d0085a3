"""All forges, and the recognition of a call's forge."""

from speedtrack.projects.forges.bitbucket import CLOUD, DATA_CENTER
from speedtrack.projects.forges.generic import GENERIC
from speedtrack.projects.forges.github import FORGEJO, GITEA, GITHUB
from speedtrack.projects.forges.gitlab import GITLAB
from speedtrack.projects.forges.provider import Provider
from speedtrack.projects.forges.signing import BadSignature, HookCall, SignatureFault

# The order matters: a forge that also sends the headers of another one is tried before it.
PROVIDERS = (FORGEJO, GITEA, GITLAB, CLOUD, DATA_CENTER, GITHUB, GENERIC)
BY_NAME = {provider.name: provider for provider in PROVIDERS}


def provider_of(call: HookCall) -> Provider:
    """The forge of a call, from headers that are not signed. Raises BadSignature if it is from none."""
    for provider in PROVIDERS:
        if any(mark in call.headers for mark in provider.marks):
            return provider
    names = ", ".join(f"{candidate.schemes[0].header} ({candidate.title})" for candidate in PROVIDERS)
    weak = "X-Hub-Signature" in call.headers
    raise BadSignature(
        SignatureFault.WEAK if weak else SignatureFault.UNSIGNED,
        f"the call is not signed: expected one of the headers {names}",
    )
