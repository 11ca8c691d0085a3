"""SMTP with TLS, a time limit on each step, and a separate error for each kind of refusal."""

import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends import smtp
from django.core.mail.utils import DNS_NAME
from django.utils.functional import cached_property

from speedtrack.notices.errors import PermanentFailure, ReceiverAway, TemporaryFailure, Unanswered

START_DATA = 354


class Utf8(str):
    """A text whose bytes are always UTF-8: smtplib asks for ASCII where RFC 4616 requires UTF-8."""

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return super().encode("utf-8", errors)


class Conversation(smtplib.SMTP):
    """``unanswered``: the server has the whole message, and has not answered yet."""

    unanswered = False
    last_code = 0

    def getreply(self) -> tuple[int, bytes]:
        self.unanswered = self.last_code == START_DATA  # smtplib reads the next reply once the whole message is sent
        self.last_code, text = super().getreply()
        self.unanswered = False
        return self.last_code, text

    def mail(self, sender: str, options: Sequence[str] = ()) -> tuple[int, bytes]:
        # Some Pythons find no address in `NAME <USER@[127.0.0.1]>`, and send it whole (python/cpython#102988).
        return super().mail(sender.rpartition("<")[2].rstrip(">"), options)

    def auth(
        self, mechanism: str, authobject: Callable[..., str | None], *, initial_response_ok: bool = True
    ) -> tuple[int, bytes]:
        def answer(challenge: bytes | None = None) -> Any:  # the stubs tell calls with and without a challenge apart
            response = authobject(challenge)
            return None if response is None else Utf8(response)

        return super().auth(mechanism, answer, initial_response_ok=initial_response_ok)


class TlsConversation(Conversation, smtplib.SMTP_SSL):
    """A ``Conversation`` that uses TLS from the first byte."""


class SmtpBackend(smtp.EmailBackend):
    """Django's SMTP backend, raising the errors of ``errors``. One connection carries the messages of a batch."""

    connection: Conversation | None
    ran_out = False

    @property
    def connection_class(self) -> type[Conversation]:
        return TlsConversation if self.use_ssl else Conversation

    @cached_property
    def ssl_context(self) -> ssl.SSLContext:
        """Trusts the system's authorities and that of EMAIL_CA_FILE; checks host names."""
        context = ssl.create_default_context()
        if settings.EMAIL_CA_FILE:
            context.load_verify_locations(settings.EMAIL_CA_FILE)
        return context

    def open(self) -> bool:
        """Connect, encrypt and log in. Raises ReceiverAway, since a refusal here applies to every mail."""
        if self.connection and self.connection.sock:
            return False
        where = f"mail server {self.host}:{self.port}"
        try:
            with self.limited():
                self.greet()
        except ssl.SSLCertVerificationError as e:
            self.drop()
            raise ReceiverAway(
                f"{where}: its certificate is not trusted ({e.verify_message}): EMAIL_HOST must be the name in it, and"
                " EMAIL_CA_FILE can name a private authority"
            ) from e
        except smtplib.SMTPAuthenticationError as e:
            self.drop()
            sent_as = (
                "" if (self.username + self.password).isascii() else " (which have more than ASCII: sent as UTF-8)"
            )
            raise ReceiverAway(
                f"{where} refuses the login: check EMAIL_HOST_USER and its password{sent_as}: {reply(e)}"
            ) from e
        except (OSError, ValueError) as e:  # SMTPException is an OSError
            self.drop()
            raise ReceiverAway(f"{where}: {self.words(e)}") from e
        return True

    def greet(self) -> None:
        options: dict[str, Any] = {"local_hostname": DNS_NAME.get_fqdn(), "timeout": self.timeout}
        if self.use_ssl:
            options["context"] = self.ssl_context
        self.connection = self.connection_class(**options)
        self.connection._host = self.host  # type: ignore[attr-defined]  # the name that TLS checks; only SMTP() sets it
        code, text = self.connection.connect(self.host, self.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, text)
        if self.use_tls:
            self.connection.starttls(context=self.ssl_context)
        if self.username and self.password:
            self.connection.login(Utf8(self.username), Utf8(self.password))

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Send the messages over one connection. Return their number.

        The first refusal raises TemporaryFailure or PermanentFailure.
        """
        for message in email_messages:
            self.open()
            with self.limited():
                self.send(message)
        return len(email_messages)

    def send(self, message: EmailMessage) -> None:
        assert self.connection
        conversation = self.connection
        try:
            self._send(message)  # type: ignore[attr-defined]  # Django has this, but its stubs do not
        except smtplib.SMTPRecipientsRefused as e:
            code, text = next(iter(e.recipients.values()))
            raise error_of_reply(code, text) from e
        except smtplib.SMTPSenderRefused as e:
            raise ReceiverAway(f"the mail server refuses the sender {e.sender}: check EMAIL_FROM: {reply(e)}") from e
        except smtplib.SMTPResponseException as e:
            raise error_of_reply(e.smtp_code, e.smtp_error) from e
        except ValueError as e:  # a wrong address or header, before anything is sent
            cause = " ".join(str(e).split())
            raise PermanentFailure(
                f"this mail cannot be written ({cause}): correct the address {', '.join(message.to)!r} or EMAIL_FROM; "
                "if these are right, the name or text that it quotes"
            ) from e
        except OSError as e:
            self.drop()
            kind = Unanswered if conversation.unanswered else ReceiverAway
            raise kind(f"mail server {self.host}:{self.port}: {self.words(e)}") from e

    def words(self, error: Exception) -> str:
        # smtplib reports a timeout of its socket as a closed connection.
        if self.ran_out or isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):
            return f"no answer within EMAIL_TIMEOUT ({self.timeout} s)"
        if isinstance(error, smtplib.SMTPResponseException):
            return reply(error)
        if isinstance(error, ValueError):
            return f"its answer cannot be read ({error}): does a mail server listen there?"
        return str(error) or type(error).__name__

    @contextmanager
    def limited(self) -> Iterator[None]:
        """End the connection if the block takes longer than EMAIL_TIMEOUT, even if the server keeps sending lines."""
        self.ran_out = False
        timer = threading.Timer(self.timeout or 0, self.cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def cut(self) -> None:
        self.ran_out = True
        if self.connection and (sock := self.connection.sock):
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not SSLSocket.shutdown from another thread
            except OSError:
                return  # it is closed already

    def drop(self) -> None:
        """Close the connection without QUIT."""
        if self.connection:
            sock, self.connection = self.connection.sock, None
            if sock:
                sock.close()

    def close(self) -> None:
        if self.connection:
            with self.limited():
                super().close()


def error_of_reply(code: int, text: bytes | str) -> Exception:
    """The error for an answer to a recipient or to a message. 421 ends the connection for every mail."""
    sentence = f"the mail server answers {code} {as_text(text)}"
    if code == 421:
        return ReceiverAway(sentence)
    return PermanentFailure(f"{sentence}: check the address") if code >= 500 else TemporaryFailure(sentence)


def reply(error: smtplib.SMTPResponseException) -> str:
    return f"{error.smtp_code} {as_text(error.smtp_error)}"


def as_text(text: bytes | str) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text
