"""The calls of the API. Calls that may succeed later are repeated, with the same Idempotency-Key."""

import os
import re
import time
import urllib.request
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx

from speedtrack_client import __version__
from speedtrack_client.failures import Exit, Failure, InvalidFields, NothingStored, ServerAway, misused
from speedtrack_client.logins import Login

JsonObject = dict[str, Any]
PAUSES_S = (0.5, 2.0, 5.0)  # between the attempts of one call
LONGEST_PAUSE_S = 60.0
BUSY = (429, 502, 503, 504)
TIMEOUT = httpx.Timeout(60, connect=10)
PAGE = 200
REFUSED_RESULTS = "#problem-refused-results"
INVALID = "#problem-invalid"
BUSY_KEY = "#problem-busy-key"
CODES = {401: Exit.REFUSED, 403: Exit.REFUSED, 409: Exit.NOT_DONE}


class Api:
    """The API of a server, called with the token of a login."""

    def __init__(self, login: Login) -> None:
        self.login = login
        headers = {"User-Agent": f"speedtrack-client/{__version__}", "Accept": "application/json"}
        if login.token:
            headers["Authorization"] = f"Bearer {login.token}"
        try:
            self.http = httpx.Client(headers=headers, timeout=TIMEOUT)
        except (OSError, ValueError) as e:
            raise misused(f"a proxy or certificate of the environment cannot be used: {e}") from None

    def get(self, path: str, **parameters: Any) -> Any:
        query = {name: value for name, value in parameters.items() if value is not None}
        return self.call("GET", f"/api/v1/{path}", params=query)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self.call("POST", f"/api/v1/{path}", json=body, headers={"Idempotency-Key": str(uuid4())})

    def some(self, path: str, most: int | None = None, **parameters: Any) -> Iterator[Any]:
        """The items of a list, page by page, at most ``most``."""
        page = self.get(path, limit=min(most or PAGE, PAGE), **parameters)
        count = 0
        while True:
            for item in page["items"]:
                if most is not None and count >= most:
                    return
                count += 1
                yield item
            if not page["next"]:
                return
            page = self.call("GET", page["next"])

    def call(self, method: str, address: str, **request: Any) -> Any:
        """The document in an answer. Raises Failure."""
        for pause_s in (*PAUSES_S, None):
            try:
                answer = self.http.request(method, self.login.url + address, **request)
            except (httpx.UnsupportedProtocol, httpx.InvalidURL) as e:
                raise misused(f"{self.login.url}: {e}") from None
            except httpx.HTTPError as e:
                if pause_s is None:
                    raise self.away(e) from None
            else:
                if pause_s is None or not is_busy(answer):
                    return self.document_of(answer)
                pause_s = max(pause_s, asked_pause_s(answer))
            time.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    def away(self, error: httpx.HTTPError) -> ServerAway:
        """The failure of a call without an answer; it names the proxy, if there is one, as the possible cause."""
        proxy = proxy_for(self.login.url)
        if not proxy:
            return ServerAway(f"{self.login.url} does not answer: {reason_of(error)}")
        name, address = proxy
        if is_of_proxy(error, address):
            return ServerAway(
                f"the proxy {address} ({name}) does not answer: {reason_of(error)}. Correct or unset {name}, or name "
                "the server in NO_PROXY"
            )
        return ServerAway(f"{self.login.url} does not answer through the proxy {address} ({name}): {reason_of(error)}")

    def document_of(self, answer: httpx.Response) -> Any:
        if answer.is_success:
            try:
                return answer.json()
            except ValueError:
                raise self.not_speedtrack("its answer is not JSON") from None
        if answer.is_redirect:
            target = plain(answer.headers.get("Location", ""))[:200]
            raise misused(f"{self.login.url} leads to {target}: give the address that does not lead elsewhere")
        if answer.headers.get("Content-Type", "").partition(";")[0] == "application/problem+json":
            raise self.refusal_of(answer)
        if answer.status_code in BUSY or answer.status_code >= 500:
            raise ServerAway(f"{self.login.url} cannot answer now (HTTP {answer.status_code}): try again later")
        raise self.unknown_operation(answer)

    def refusal_of(self, answer: httpx.Response) -> Failure:
        try:
            problem = answer.json()
            detail = plain(str(problem["detail"]))
            if str(problem.get("type")).endswith(REFUSED_RESULTS):
                reasons = [str(error["detail"]) for error in problem["errors"]]
                return NothingStored(detail, reasons, int(problem.get("refused_count", len(reasons))))
            if str(problem.get("type")).endswith(INVALID):
                return InvalidFields(detail, [str(error.get("pointer")) for error in problem.get("errors", [])])
        except (ValueError, KeyError, TypeError, AttributeError):
            detail = f"HTTP {answer.status_code}"
        if is_busy(answer) or answer.status_code >= 500:
            return ServerAway(detail)
        if answer.status_code == 405 or (answer.status_code == 404 and "nothing at this address" in detail):
            return self.unknown_operation(answer)
        if answer.status_code == 401 and not self.login.token:
            detail += f" Run `speedtrack login {self.login.url}`."
        return Failure(detail, CODES.get(answer.status_code, Exit.USAGE))

    def unknown_operation(self, answer: httpx.Response) -> Failure:
        """The Failure for an operation that the server lacks: it is of another release, or no SpeedTrack at all."""
        if answer.url.path.endswith("/api/v1/"):
            return self.not_speedtrack(f"HTTP {answer.status_code}")
        version = plain(str(self.installation()["version"]))
        remedy = "Install the client of its release"
        if is_older(version, __version__):
            remedy = "It is older than this client: upgrade it, or install the client of its release"
        return Failure(
            f"{self.login.url} runs SpeedTrack {version}, which cannot do what this client ({__version__}) asks for. "
            f"{remedy}",
            Exit.SERVER,
        )

    def not_speedtrack(self, why: str) -> Failure:
        return Failure(f"{self.login.url} is no SpeedTrack with the API v1 ({why}): check the address", Exit.SERVER)

    def installation(self) -> dict[str, Any]:
        """The release of the server, and the owner of the token. Raises Failure."""
        document = self.get("")
        if not isinstance(document, dict) or document.get("name") != "SpeedTrack":
            raise self.not_speedtrack("something else answers")
        return document


def proxy_for(url: str) -> tuple[str, str] | None:
    """The variable that names the proxy for an address, and the proxy without its password; None without a proxy."""
    parsed, proxies = httpx.URL(url), urllib.request.getproxies_environment()
    if urllib.request.proxy_bypass_environment(parsed.netloc.decode(), proxies):  # type: ignore[attr-defined]
        return None
    scheme = next((candidate for candidate in (parsed.scheme, "all") if proxies.get(candidate)), None)
    if scheme is None:
        return None
    proxy = proxies[scheme]
    address = httpx.URL(proxy if "://" in proxy else f"http://{proxy}")
    names = (f"{scheme}_proxy", f"{scheme}_PROXY".upper())
    name = next((candidate for candidate in names if os.environ.get(candidate)), names[-1])
    return name, f"{address.scheme}://{address.netloc.decode()}"


def is_of_proxy(error: httpx.HTTPError, proxy: str) -> bool:
    """Return whether the proxy itself could not be used: connections go to the proxy.

    A certificate belongs to the server behind the proxy, unless the proxy is called by TLS as well.
    """
    is_of_tls = "ssl" in str(error).lower() or "certificate" in str(error).lower()
    if is_of_tls and proxy.startswith("http://"):
        return False
    return isinstance(error, (httpx.ProxyError, httpx.ConnectError, httpx.ConnectTimeout))


def is_older(version: str, reference: str) -> bool:
    first, second = ([int(number) for number in re.findall(r"\d+", text)[:3]] for text in (version, reference))
    return first < second


def reason_of(error: Exception) -> str:
    reasons: dict[type[Exception], str] = {
        httpx.ConnectTimeout: "no connection within 10 s",
        httpx.ReadTimeout: "it took the request, but did not answer within 60 s",
        httpx.RemoteProtocolError: "it ended the connection",
    }
    return reasons.get(type(error)) or plain(str(error)) or type(error).__name__


def is_busy(answer: httpx.Response) -> bool:
    """Return whether the same call may succeed later, also as an attempt that was given up here is still at work."""
    return answer.status_code in BUSY or (answer.status_code == 409 and BUSY_KEY in answer.text)


def asked_pause_s(answer: httpx.Response) -> float:
    header = answer.headers.get("Retry-After", "")
    return min(float(header), LONGEST_PAUSE_S) if header.isascii() and header.isdigit() else 0.0


def plain(text: str) -> str:
    """The text on one line, without characters that move a terminal's cursor."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
