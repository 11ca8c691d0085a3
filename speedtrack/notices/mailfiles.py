"""Mail as files, one ``.eml`` per message: for the demo and for machines without a mail server."""

from collections.abc import Sequence
from pathlib import Path

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from speedtrack.ground.secrets import privatefiles
from speedtrack.notices.errors import ReceiverAway


class MailFileBackend(BaseEmailBackend):
    """Writes each message to EMAIL_FILES/<Message-ID>.eml; the same message again replaces its file."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        directory = Path(settings.EMAIL_FILE_PATH)
        for message in email_messages:
            content = message.message()
            name = str(content["Message-ID"]).strip("<>").replace("/", "_")
            try:
                privatefiles.replace(directory / f"{name}.eml", content.as_bytes())
            except OSError as e:
                raise ReceiverAway(f"cannot write {directory}: {e.strerror}: check EMAIL_FILES") from e
        return len(email_messages)
