"""The form for what opens a private repository."""

from typing import Any

from django import forms
from django.http import QueryDict

from speedtrack.projects.mirrors.credentials import CredentialEntry, UnfitCredential, credential_for
from speedtrack.projects.models import Credential

PLAIN: dict[str, Any] = {"autocomplete": "off", "spellcheck": "false", "autocapitalize": "off"}


class SecretArea(forms.Textarea):
    """Shows nothing of what was entered."""

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        return super().get_context(name, None, attrs)


class AccessForm(forms.Form):
    """A token for an https address, or a deploy key for an ssh one."""

    token = forms.CharField(
        max_length=2000,
        required=False,
        label="Access token, for an https address",
        help_text="one that may only read this repository",
        widget=forms.PasswordInput({"autocomplete": "off"}),
    )
    user = forms.CharField(
        max_length=100,
        required=False,
        label="User of the token",
        help_text="only if the forge wants a certain one, as Bitbucket does (x-token-auth)",
        widget=forms.TextInput(PLAIN),
    )
    deploy_key = forms.CharField(
        max_length=20_000,
        required=False,
        label="Private deploy key, for an ssh address",
        help_text="without a passphrase; the forge gets its public part",
        widget=SecretArea(PLAIN | {"rows": 4}),
    )
    known_hosts = forms.CharField(
        max_length=20_000,
        required=False,
        label="Keys of the ssh host",
        help_text="what ssh-keyscan HOST prints, compared with what the forge publishes",
        widget=forms.Textarea(PLAIN | {"rows": 3}),
    )

    def __init__(self, entered: QueryDict | None) -> None:
        super().__init__(entered, label_suffix="")

    def credential(self, url: str) -> Credential | None:
        """What was entered, for the server of this address; None without or after an error.

        Raises RepositoryError for the address.
        """
        if not self.is_valid():
            return None
        fields = self.cleaned_data
        entry = CredentialEntry(fields["token"], fields["user"], fields["deploy_key"], fields["known_hosts"])
        try:
            return credential_for(url, entry)
        except UnfitCredential as e:
            self.add_error({"key": "deploy_key"}.get(e.field, e.field), str(e))
        return None
