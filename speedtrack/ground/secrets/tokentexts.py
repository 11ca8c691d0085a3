"""Tokens as texts: ``<prefix>_<key>_<43 letters and digits>_<check sum>``.

The prefix lets scanners of secrets find one, the key finds its row, and the check sum distinguishes a mistyped token
from a revoked one. Only its SHA-256 is stored, which is enough for 256 random bits.
"""

import hashlib
import re
import secrets
import string
import zlib
from typing import NamedTuple

BASE62 = string.digits + string.ascii_letters
SECRET_LENGTH = 43  # 256 bits
CHECK_LENGTH = 6
TOKEN = re.compile(f"([a-z]{{4}})_([0-9a-f]{{12}})_([0-9A-Za-z]{{{SECRET_LENGTH}}})_([0-9A-Za-z]{{{CHECK_LENGTH}}})")
MACHINE = "strn"  #: prefix of a machine's token
PERSON = "stpt"  #: prefix of a person's token


class NotAToken(Exception):
    """This text is no complete token of the expected kind."""


class TokenText(NamedTuple):
    """A token in its transmitted form, and its key."""

    text: str
    key: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @staticmethod
    def new(prefix: str) -> "TokenText":
        key, secret = secrets.token_hex(6), "".join(secrets.choice(BASE62) for _ in range(SECRET_LENGTH))
        return TokenText(f"{prefix}_{key}_{secret}_{check_sum(key, secret)}", key)

    @staticmethod
    def parse(text: str, prefix: str) -> "TokenText":
        """Return the parts of a token's text. Raises NotAToken."""
        match = TOKEN.fullmatch(text)
        if match is None or match[1] != prefix or match[4] != check_sum(match[2], match[3]):
            raise NotAToken
        return TokenText(text, match[2])


def check_sum(key: str, secret: str) -> str:
    """The CRC-32 of the other parts, in letters and digits."""
    quotient, letters = zlib.crc32(f"{key}_{secret}".encode()), ""
    for _ in range(CHECK_LENGTH):
        quotient, digit = divmod(quotient, len(BASE62))
        letters = BASE62[digit] + letters
    return letters
