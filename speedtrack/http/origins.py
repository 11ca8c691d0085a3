"""Addresses of servers in settings: read, checked, and spelt like in browsers.

A browser sends the host of an address in lower case, in punycode and with brackets around IPv6, and leaves out the
usual port. Texts that are compared with its headers (Host, Origin) must be spelt in the same way.
"""

import re
from collections.abc import MutableMapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NoReturn

from django.core.exceptions import ImproperlyConfigured

from speedtrack.ground.secrets.addresses import is_host, is_loopback

EXAMPLE = "https://speed.example.org"
USUAL_PORTS = {"http": 80, "https": 443}
ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<server>[^/?#]*)(?P<path>[^?#]*)(?P<more>.*)")
SERVER = re.compile(r"(?P<host>\[[^\[\]]*\]|[^\[\]]*?)(:(?P<port>[0-9]{0,9}))?")
NOT_IN_ADDRESSES = re.compile(r"[\s\x00-\x1f\x7f\\]")
SENDER = re.compile(r"(?P<before>[^@<>\r\n]*<|)(?P<local>[^@<>\s]+)@(?P<domain>[^@<>\s]+)(?P<after>>?)")
LOCAL_PART = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+")
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
LONGEST_NAME = 253


@dataclass(frozen=True)
class WebOrigin:
    """Scheme, host and port of a server; ``str()`` gives the Origin header of a browser."""

    scheme: str
    host: str  #: IPv6 has brackets, as in an address
    port: int | None  #: None for the usual port of the scheme

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{f':{self.port}' if self.port else ''}"

    @property
    def is_https(self) -> bool:
        return self.scheme == "https"

    @property
    def hostname(self) -> str:
        """The host without brackets, for programs that connect."""
        return self.host.strip("[]")

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.hostname)

    @property
    def mail_domain(self) -> str:
        """The part after the @ of a mail address there: an IP address has brackets (RFC 5321, 4.1.3)."""
        if self.host.startswith("["):
            return f"[IPv6:{self.hostname}]"
        return f"[{self.host}]" if NUMBER.fullmatch(self.host.rpartition(".")[2]) else self.host


def spell_in_environment(environ: MutableMapping[str, str]) -> None:
    """Spell the addresses of pages and streams in the environment like `str(WebOrigin)`, for programs without settings.

    Raises ImproperlyConfigured.
    """
    for name in ("SPEEDTRACK_URL", "SPEEDTRACK_LIVE_URL"):
        text = environ.pop(name, "").strip()
        if text:
            environ[name] = text if text == "same" else str(read_origin(name, text))


def read_origin(name: str, text: str) -> WebOrigin:
    """The origin in a setting; a slash at its end does not count.

    Raises ImproperlyConfigured if the text is no origin.
    """
    origin, path = read_address(name, text)
    if path:
        refuse(name, f"SpeedTrack is not served below a path such as {path!r}: give the address without it, {origin}")
    return origin


def read_address(name: str, text: str) -> tuple[WebOrigin, str]:
    """The origin and the path of the server in a setting, without a slash at the end.

    Raises ImproperlyConfigured if the text is no address of http or https.
    """
    match = ADDRESS.fullmatch(text)
    if match and "@" in match["server"]:
        refuse(name, f"it names a user or has a password, which every page would show: give such as {EXAMPLE}")
    if NOT_IN_ADDRESSES.search(text):
        refuse(name, f"{text!r} has a blank, a line break or a backslash in it: give such as {EXAMPLE}")
    if not match or match["scheme"].lower() not in USUAL_PORTS:
        refuse(name, f"{without_user(text)!r} does not begin with https:// or http://: give such as {EXAMPLE}")
    if match["more"]:
        refuse(name, f"{text!r} has a ? or a #: give the address alone, such as {EXAMPLE}")
    scheme = match["scheme"].lower()
    host, port = read_server(name, match["server"])
    return WebOrigin(scheme, host, None if port == USUAL_PORTS[scheme] else port), match["path"].rstrip("/")


def read_sealed_address(name: str, text: str) -> str:
    """The address of a server that gets secrets: https, or http on this machine. Raises ImproperlyConfigured."""
    origin, path = read_address(name, text)
    if not origin.is_https and not origin.is_loopback:
        refuse(name, f"{text!r} is reached without encryption: give an https:// address such as https://id.example.org")
    return f"{origin}{path}"


def without_user(text: str) -> str:
    """The text without a possible user name and password."""
    return text.rpartition("@")[2]


def read_server(name: str, text: str) -> tuple[str, int | None]:
    """Host and port of HOST or HOST:PORT; the port is None if it is missing."""
    server = SERVER.fullmatch(text)
    if server and server["port"] and not 0 < int(server["port"]) < 65536:
        refuse(name, f"{text!r} has the port {server['port']}: give one from 1 to 65535, or none")
    if not server or (not server["host"].startswith("[") and ":" in server["host"]):
        refuse(
            name, f"{text!r} is no HOST or HOST:PORT, with a number as port and IPv6 in brackets: [2001:db8::1]:8000"
        )
    return read_host(name, server["host"]), int(server["port"]) if server["port"] else None


def read_host(name: str, text: str) -> str:
    """A host in browsers' spelling: a name in lower case and punycode, IPv4, or IPv6 in brackets.

    Raises ImproperlyConfigured if the text is no host, or an address that cannot be reached.
    """
    if text.startswith("["):
        return f"[{read_ip(name, text, IPv6Address)}]"
    host = in_punycode(text).lower().removesuffix(".")
    labels = host.split(".")
    if not all(map(LABEL.fullmatch, labels)) or len(host) > LONGEST_NAME:
        refuse(name, f"{text!r} is no name of a host and no IP address: give such as speed.example.org")
    # Browsers read each name that ends with a number as an IPv4 address.
    return str(read_ip(name, host, IPv4Address)) if NUMBER.fullmatch(labels[-1]) else host


def read_ip(name: str, text: str, kind: type[IPv4Address] | type[IPv6Address]) -> IPv4Address | IPv6Address:
    """An address of this kind; IPv6 has brackets."""
    try:
        address = ip_address(text.strip("[]"))
    except ValueError:
        refuse(name, f"{text!r} is no IP address: give such as 192.0.2.1 or [2001:db8::1], or a name")
    if not isinstance(address, kind) or getattr(address, "scope_id", None):
        refuse(name, f"{text!r} is no IP address of a server: give such as 192.0.2.1, or [2001:db8::1] without a zone")
    if address.is_unspecified:
        refuse(
            name, f"{text!r} is where programs listen, and nobody is reached there: give the address that people call"
        )
    return address


def read_connected_host(name: str, text: str) -> str:
    """A host for connections of the server, in lower case and punycode; brackets of IPv6 are removed.

    Raises ImproperlyConfigured, also if the text has more than a host.
    """
    host = in_punycode(text).lower()
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if "://" in text or "/" in text or (":" in text and not is_host(host)):
        refuse(name, f"{without_user(text)!r} is more than a host: give its name or IP address alone, without a port")
    if not is_host(host):
        refuse(name, f"{without_user(text)!r} is no name of a host and no IP address: give such as smtp.example.org")
    return host


def read_sender(name: str, text: str) -> str:
    """The sender of mails: ``NAME <ADDRESS>`` or ``ADDRESS``, the domain in punycode. Raises ImproperlyConfigured."""
    match = SENDER.fullmatch(text)
    domain = in_punycode(match["domain"]) if match else ""
    if (
        not match
        or bool(match["before"]) != bool(match["after"])
        or not (domain.startswith("[") or is_host(domain.lower()))
    ):
        refuse(name, f"{text!r}: give an address, as SpeedTrack <speedtrack@example.org>")
    if not LOCAL_PART.fullmatch(match["local"]):
        refuse(name, f"{text!r}: before the @, few mail servers take more than letters of ASCII, digits and .-_+")
    return f"{match['before']}{match['local']}@{domain}{match['after']}"


def read_allowed_host(name: str, text: str) -> str:
    """An entry of Django's ALLOWED_HOSTS: a host, ``.example.org`` for all names below it, or ``*`` for any."""
    if text == "*":
        return text
    if text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"
    server = SERVER.fullmatch(text)
    if "/" in text or (server and server["port"]):
        refuse(name, f"{text!r} is more than a host: list names such as speed.example.org, without scheme and port")
    return f"{'.' * text.startswith('.')}{read_host(name, text.removeprefix('.'))}"


def in_punycode(host: str) -> str:
    """The name in its network form (IDNA 2008); unchanged if it has none."""
    if host.isascii():
        return host
    import idna  # here, because few names need its tables

    try:
        return idna.encode(host, uts46=True).decode()
    except idna.IDNAError:
        return host


def refuse(name: str, sentence: str) -> NoReturn:
    raise ImproperlyConfigured(f"{name}: {sentence}")
