"""Mail as files, one ``.eml`` per message: for the demo and for machines without a mail server."""

from collections.abc import Sequence
from pathlib import Path

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend


class EmailBackend(BaseEmailBackend):
    """Writes each message to EMAIL_FILES/<Message-ID>.eml; the same message again replaces its file."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        directory = Path(settings.EMAIL_FILE_PATH)
        directory.mkdir(parents=True, exist_ok=True)
        for message in email_messages:
            content = message.message()
            name = str(content["Message-ID"]).strip("<>").replace("/", "_")
            (directory / f"{name}.eml").write_bytes(content.as_bytes())
        return len(email_messages)
