"""The token of this machine: made here, kept in a file that only its user may read, and replaced while runs go on.

A token is ``strn_<key>_<43 letters and digits>_<check sum>`` (docs/result-format.md).
"""

import logging
import secrets
import string
import zlib
from contextlib import suppress
from pathlib import Path

from runners.errors import RunnerError
from runners.files import sync_directory, write_durably
from runners.reporting.connection import ServerConnection

log = logging.getLogger(__name__)

BASE62 = string.digits + string.ascii_letters
SECRET_LENGTH, CHECK_LENGTH = 43, 6
PRIVATE = 0o600


def new_token() -> str:
    key, secret = secrets.token_hex(6), "".join(secrets.choice(BASE62) for _ in range(SECRET_LENGTH))
    return f"strn_{key}_{secret}_{check_sum(key, secret)}"


def check_sum(key: str, secret: str) -> str:
    """The CRC-32 of the other parts, in letters and digits."""
    number, letters = zlib.crc32(f"{key}_{secret}".encode()), ""
    for _ in range(CHECK_LENGTH):
        number, digit = divmod(number, len(BASE62))
        letters = BASE62[digit] + letters
    return letters


class TokenFile:
    """The file of the token, and a file `*.next` with its successor until the server accepts it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.next = file.with_name(f"{file.name}.next")

    def successor(self) -> str:
        """A new token, on disk before it is sent. After a crash the same one is returned again."""
        with suppress(OSError, UnicodeDecodeError):
            if pending_token := self.next.read_text().strip():
                return pending_token
        token = new_token()
        write_durably(self.next, f"{token}\n".encode(), PRIVATE)
        return token

    def discard(self) -> None:
        """Deletes the successor because the server has refused it: the next one is different."""
        self.next.unlink(missing_ok=True)

    def accept(self) -> None:
        """Makes the successor the token."""
        self.next.rename(self.file)
        sync_directory(self.file.parent)


def rotate(connection: ServerConnection, file: Path | None) -> bool:
    """Replaces the token; the old one stays valid until the new one is used.

    Returns False if that failed; the reason is in the log, and the server asks again.
    """
    if file is None:
        log.warning("the token is to be replaced, but is not in a file: set SPEEDTRACK_TOKEN_FILE instead of its text")
        return False
    token_file = TokenFile(file)
    try:
        successor = token_file.successor()
        connection.succeed(successor)
        token_file.accept()
    except (OSError, RunnerError) as error:
        log.warning("the token could not be replaced: %s; tried again later", error)
        return False
    connection.token = successor
    log.info("the token was replaced: %s", file)
    return True
