"""The broker: how its address is written and checked, and how long each step of a connection may take.

Server and runner read the same variables, so both use this module. Its texts never contain a part of a password: an
address that cannot be read is not repeated. The broker's libraries are not loaded here, because most processes only
read the address.
"""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

CONNECT_S, ANSWER_S = 3, 5
HEARTBEAT_S = 20

#: by scheme of an address: Celery's scheme, and whether it uses TLS
SCHEMES = {
    **dict.fromkeys(("redis", "valkey"), ("redis", False)),
    **dict.fromkeys(("rediss", "valkeys", "redis+tls", "valkey+tls"), ("rediss", True)),
    **dict.fromkeys(("redis+socket", "valkey+socket", "redis+unix", "unix"), ("redis+socket", False)),
    **dict.fromkeys(("sentinel", "redis+sentinel"), ("sentinel", False)),
    **dict.fromkeys(("sentinels", "sentinel+tls"), ("sentinel", True)),
    **dict.fromkeys(("amqp", "pyamqp"), ("amqp", False)),
    "amqps": ("amqps", True),
}
LISTED_SCHEMES = (
    "redis://, rediss://, valkey://, valkeys://, unix://, sentinel://, sentinel+tls://, amqp:// or amqps://"
)
TLS_FILES = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}
TLS_OPTIONS = TLS_FILES | {"ssl_cert_reqs"}
SENTINEL_OPTIONS = {"master_name", "sentinel_username", "sentinel_password"}
SOCKET_OPTIONS = {"virtual_host"}
OPTIONS = TLS_OPTIONS | SENTINEL_OPTIONS | SOCKET_OPTIONS
REDIS_OPTIONS = {
    "socket_timeout": ANSWER_S,
    "socket_connect_timeout": CONNECT_S,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "global_keyprefix": "speedtrack:",
}
AMQP_OPTIONS = {"read_timeout": ANSWER_S, "write_timeout": ANSWER_S}

# The last "@" ends the password, so a password may have any character; a later "@" is written %40.
LOGIN, REST = r"(?:(?P<login>.*)@)?", r"(?P<path>/[^@?#]*)?(?:\?(?P<options>[^@#]*))?"
ADDRESS = re.compile(rf"{LOGIN}(?P<host>\[[^\]@]*\]|[^\[\]@/?#:]*)(?::(?P<port>\d*))?{REST}")
SOCKET_ADDRESS = re.compile(rf"{LOGIN}(?P<host>)(?P<port>){REST}")
NEXT_ADDRESS = re.compile(r";(?=[a-z+]+://)")


class AddressError(ValueError):
    """The address of a broker cannot be used; the text has the reason and the remedy."""


@dataclass(frozen=True)
class BrokerAddress:
    """One host of a broker, or a socket, with user and password."""

    scheme: str
    host: str
    port: str
    path: str
    user: str
    password: str = field(repr=False)
    options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class Broker:
    """A broker with a valid address. Several hosts are sentinels, or nodes of one cluster."""

    addresses: tuple[BrokerAddress, ...]
    ca_file: str = ""

    @property
    def scheme(self) -> str:
        return self.addresses[0].scheme

    @property
    def options(self) -> dict[str, str]:
        return {name: value for address in self.addresses for name, value in address.options.items()}

    @property
    def password(self) -> str:
        return next((address.password for address in self.addresses if address.password), "")

    @property
    def user(self) -> str:
        return next((address.user for address in self.addresses if address.user or address.password), "")

    @property
    def path(self) -> str:
        return next((address.path for address in self.addresses if address.path), "")

    @property
    def hosts(self) -> list[str]:
        """The names or numbers of its hosts; none for a socket."""
        return [address.host for address in self.addresses if address.host]

    @property
    def is_encrypted(self) -> bool:
        return SCHEMES[self.scheme][1]

    @property
    def is_verified(self) -> bool:
        return self.is_encrypted and self.options.get("ssl_cert_reqs") != "none"

    def __str__(self) -> str:
        """The address without user, password and options."""
        return f"{self.scheme}://{','.join(_host_and_port(address) for address in self.addresses)}{self.path}"

    @cached_property
    def url(self) -> str:
        """The address for Celery. Each part is quoted, and each of several hosts has the same login."""
        return ";".join(self._url_of(address) for address in self.addresses)

    def _url_of(self, address: BrokerAddress) -> str:
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.user or self.password else ""
        scheme = SCHEMES[self.scheme][0]
        if scheme == "redis+socket":
            number = self.options.get("virtual_host")
            return f"{scheme}://{login}{quote(address.path)}" + (f"?virtual_host={number}" if number else "")
        return f"{scheme}://{login}{_host_and_port(address)}/{quote(unquote(self.path[1:]), safe='')}"

    @property
    def tls(self) -> dict[str, Any] | None:
        """Celery's setting ``broker_use_ssl``, and kombu's argument ``ssl``: the server's certificate is verified."""
        if not self.is_encrypted:
            return None
        files = {name.removeprefix("ssl_"): file for name, file in self.options.items() if name in TLS_FILES}
        settings: dict[str, Any] = {**files, "cert_reqs": ssl.CERT_REQUIRED if self.is_verified else ssl.CERT_NONE}
        if ca_file := files.get("ca_certs") or self.ca_file:
            settings["ca_certs"] = ca_file
        if self.scheme == "amqps":  # amqp compares no names without this; kombu fills the host's name in
            return settings | ({"server_hostname": None} if self.is_verified else {})
        return {f"ssl_{name}": value for name, value in {**settings, "check_hostname": self.is_verified}.items()}

    @property
    def transport_options(self) -> dict[str, Any]:
        if self.scheme in ("amqp", "amqps", "pyamqp"):
            return dict(AMQP_OPTIONS)
        if SCHEMES[self.scheme][0] != "sentinel":
            return dict(REDIS_OPTIONS)
        credentials = {name: self.options.get(f"sentinel_{name}") for name in ("username", "password")}
        times = {"socket_timeout": CONNECT_S, "socket_connect_timeout": CONNECT_S}
        encryption = {"ssl": True, **self.tls} if self.tls else {}
        sentinel_options = {**times, **encryption, **{name: value for name, value in credentials.items() if value}}
        return {**REDIS_OPTIONS, "master_name": self.options["master_name"], "sentinel_kwargs": sentinel_options}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a Celery app."""
        return {
            "broker_url": self.url,
            "broker_use_ssl": self.tls,
            "broker_transport_options": self.transport_options,
            "broker_connection_timeout": CONNECT_S,
            "broker_heartbeat": HEARTBEAT_S,
            "broker_connection_retry_on_startup": True,
            "broker_connection_max_retries": None,
        }

    def without_secrets(self, text: str) -> str:
        """A text of a library, without passwords."""
        for secret in (self.password, self.options.get("sentinel_password", "")):
            for form in {secret, quote(secret, safe=""), quote(secret)} - {""}:
                text = text.replace(form, "...")
        return text


def read(text: str, ca_file: str = "") -> Broker:
    """The broker of an address such as redis://user:password@host:6379/0.

    ``ca_file``: certificates that verify it, in addition to those of the system. Raises AddressError.
    """
    addresses = tuple(_address(piece) for piece in NEXT_ADDRESS.split(text.strip()))
    broker = Broker(addresses, ca_file)
    if len({address.scheme for address in addresses}) > 1:
        raise AddressError("its addresses have different schemes: give each the same")
    # With amqps:// kombu would look for the name of the first host in the certificates of all.
    if len(addresses) > 1 and SCHEMES[broker.scheme][0] not in ("sentinel", "amqp"):
        raise AddressError("it has several addresses: give one; only sentinel:// and amqp:// take several, with ;")
    _check_options(broker)
    _check_path(broker)
    _check_files(broker)
    return broker


def read_environment(environ: Mapping[str, str], url: str) -> Broker:
    """The broker of this address, with the certificates that BROKER_CA_FILE names. Raises AddressError."""
    return read(url, environ.get("BROKER_CA_FILE", ""))


def _address(text: str) -> BrokerAddress:
    scheme, separator, location = text.partition("://")
    if not separator or scheme not in SCHEMES:
        raise AddressError(f"its scheme is unknown: begin with {LISTED_SCHEMES}")
    if any(ord(character) < ord(" ") or ord(character) == 127 for character in text):
        raise AddressError("it has a line break or another control character: take it out")
    kind = SOCKET_ADDRESS if SCHEMES[scheme][0] == "redis+socket" else ADDRESS
    match = kind.fullmatch(location)
    if not match or (match["login"] and re.search(rf"[?&]({'|'.join(OPTIONS)})=", match["login"])):
        raise AddressError(
            f"it cannot be read: write {_example(scheme)}, and in the password %25 for %, in an option %40 for @"
        )
    user, _, password = (match["login"] or "").partition(":")
    host = _host(match["host"]) if kind is ADDRESS else ""
    if match["port"] and not 0 < int(match["port"]) < 65536:
        raise AddressError("its port is not between 1 and 65535: correct it")
    if kind is SOCKET_ADDRESS and not match["path"]:
        raise AddressError(f"it names no socket: write {_example(scheme)}")
    path = unquote(match["path"]) if kind is SOCKET_ADDRESS else (match["path"] or "").rstrip("/")
    return BrokerAddress(
        scheme, host, match["port"] or "", path, unquote(user), unquote(password), _options(match["options"])
    )


def _example(scheme: str) -> str:
    if SCHEMES[scheme][0] == "redis+socket":
        return f"{scheme}:///path/of/the/socket"
    return f"{scheme}://user:password@host:port/{'vhost' if scheme.endswith(('amqp', 'amqps')) else '0'}"


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            return str(IPv6Address(text[1:-1]))
        except ValueError as e:
            raise AddressError("the text in [ ] is no IPv6 address: correct it") from e
    if not re.fullmatch(r"[A-Za-z0-9._-]+", text):
        raise AddressError("it names no host: write the host after the last @, an IPv6 address in [ ]")
    return text.lower()


def _host_and_port(address: BrokerAddress) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}" if address.port else host


def _options(text: str | None) -> dict[str, str]:
    options = {}
    for pair in filter(None, (text or "").split("&")):
        name, _, value = pair.partition("=")
        if name not in OPTIONS:
            raise AddressError(f"it has an option that is not known: use {', '.join(sorted(OPTIONS))}")
        options[name] = unquote(value)
    return options


def _check_options(broker: Broker) -> None:
    options, is_sentinel = broker.options, SCHEMES[broker.scheme][0] == "sentinel"
    fitting = (TLS_OPTIONS if broker.is_encrypted else set()) | (SENTINEL_OPTIONS if is_sentinel else set())
    fitting |= SOCKET_OPTIONS if SCHEMES[broker.scheme][0] == "redis+socket" else set()
    if unfit := sorted(options.keys() - fitting):
        raise AddressError(f"{unfit[0]} does nothing with {broker.scheme}://: take it out, or change the scheme")
    if options.get("ssl_cert_reqs", "required") not in ("required", "none"):
        raise AddressError("ssl_cert_reqs: write required, or none (no verification)")
    if is_sentinel and not options.get("master_name"):
        raise AddressError("it lacks the name of the sentinels' master: end it with ?master_name=NAME")


def _check_path(broker: Broker) -> None:
    path = broker.path
    if "amqp" in broker.scheme:
        if "/" in path[1:]:
            raise AddressError("its virtual host has a /: write %2F")
    elif SCHEMES[broker.scheme][0] == "redis+socket":
        if not broker.options.get("virtual_host", "0").isdecimal():
            raise AddressError("virtual_host is no number of a database: write ?virtual_host=0")
    elif not re.fullmatch(r"(/\d{1,5})?", path):
        raise AddressError("the part after the host is no database number: write /0, or nothing")


def _check_files(broker: Broker) -> None:
    files = {"BROKER_CA_FILE": broker.ca_file} if broker.is_encrypted else {}
    files |= {name: broker.options[name] for name in sorted(TLS_FILES) if name in broker.options}
    for name, file in files.items():
        if file and not os.access(file, os.R_OK):
            raise AddressError(f"{name} names {file}, which cannot be read: correct its path or mode")
    if ca := broker.is_encrypted and (broker.options.get("ssl_ca_certs") or broker.ca_file):
        try:
            ssl.create_default_context(cafile=str(Path(ca)))
        except ssl.SSLError as e:
            raise AddressError(
                f"{ca} has no certificates: give a PEM file of the authorities that sign the broker's"
            ) from e
