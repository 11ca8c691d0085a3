"""The crowd beside which claims are measured: it counts what it is answered, and ends."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from research.scale.costs.crowd import PageReader, reading
from runners.tests.ports import free_port


class Pages(BaseHTTPRequestHandler):
    """Answers /page, and knows how often each address was asked for."""

    asked: list[str]
    reached: threading.Event

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200 if self.path == "/page" else 503)
        self.end_headers()
        if self.asked.count("/page") > 3 and "/metrics" in self.asked:
            self.reached.set()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    Pages.asked, Pages.reached = [], threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_tabs_load_their_page_again_until_they_are_closed(port: int) -> None:
    tabs, scraper = [PageReader(port, ["/page"], 0.0) for _ in range(2)], PageReader(port, ["/metrics"], 1.0)
    with reading([*tabs, scraper]):
        assert Pages.reached.wait(60)
    for reader in (*tabs, scraper):
        reader.join(60)
        assert not reader.is_alive()
    assert sum(tab.answers for tab in tabs) >= 3
    assert scraper.answers == 0, "503 is no answer"


def test_a_refused_connection_does_not_end_a_tab() -> None:
    tab = PageReader(free_port(), ["/page"], 0.0)
    with reading([tab]):
        tab.join(0.5)
        assert tab.is_alive()
    tab.join(60)
    assert tab.answers == 0
