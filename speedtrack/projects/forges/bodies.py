"""The body of a call. It may have tens of megabytes, so it is read block by block."""

import hashlib
import hmac
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import SEEK_END, BytesIO
from typing import BinaryIO

BLOCK = 1 << 18  # bytes
FASTEST = 1  # level of zlib; it makes JSON five times smaller


@dataclass(frozen=True)
class Body:
    """``file``: it holds only the body, and can be read again."""

    file: BinaryIO
    size: int

    @classmethod
    def of(cls, content: bytes | BinaryIO) -> "Body":
        file = BytesIO(content) if isinstance(content, bytes) else content
        return cls(file, file.seek(0, SEEK_END))

    def blocks(self) -> Iterator[bytes]:
        self.file.seek(0)
        while block := self.file.read(BLOCK):
            yield block

    def read(self) -> bytes:
        return b"".join(self.blocks())

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for block in self.blocks():
            digest.update(block)
        return digest.hexdigest()

    def hmac_sha256(self, key: bytes, head: bytes = b"") -> bytes:
        """Return the HMAC of ``head`` followed by the body."""
        mac = hmac.new(key, head, hashlib.sha256)
        for block in self.blocks():
            mac.update(block)
        return mac.digest()

    def packed(self) -> bytes:
        packer, packed = zlib.compressobj(FASTEST), BytesIO()  # joining a list would make a second copy
        packed.writelines(map(packer.compress, self.blocks()))
        packed.write(packer.flush())
        return packed.getvalue()
