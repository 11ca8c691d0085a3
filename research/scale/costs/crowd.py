"""Claims during a crowd, from the web server of an installation: many tabs of one page, and a scraper each second."""

import http.client
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import monotonic

from research.scale.costs.claimers import web_server
from research.scale.costs.meter import Cost
from research.scale.costs.viewers import claims
from speedtrack.runs.models import Machine

TABS = 50
SCRAPE_S = 1.0
BESIDE = 40  # claims


@dataclass(frozen=True)
class CrowdLoad:
    """The cost of claims alone and during the crowd, and the pages per second that the crowd got."""

    alone: Cost
    beside: Cost
    rate: float


def crowd(page: str, scraped: Sequence[str], tabs: int = TABS, count: int = BESIDE) -> CrowdLoad:
    """Claims of one machine while each tab loads the page again and again. The claims are undone."""
    machine = Machine.objects.filter(outside=False).order_by("pk")[0]
    with web_server() as (port, web):
        alone = claims(machine, port, web, count)
        readers = [PageReader(port, [page], 0.0) for _ in range(tabs)]
        with reading([*readers, PageReader(port, scraped, SCRAPE_S)]):
            began_at = monotonic()
            beside = claims(machine, port, web, count)
            seconds = monotonic() - began_at
        return CrowdLoad(alone, beside, sum(reader.answers for reader in readers) / seconds)


class PageReader(threading.Thread):
    """Gets addresses in turn until it is ended, at most one in every ``pause_s`` seconds."""

    def __init__(self, port: int, addresses: Sequence[str], pause_s: float) -> None:
        super().__init__(daemon=True)
        self.port, self.addresses, self.pause_s = port, addresses, pause_s
        self.ended = threading.Event()
        self.answers = 0

    def run(self) -> None:
        while not self.ended.is_set():
            for address in self.addresses:
                self.get(address)
            self.ended.wait(self.pause_s)

    def get(self, address: str) -> None:
        connected = http.client.HTTPConnection("127.0.0.1", self.port)
        try:
            connected.request("GET", address, headers={"Accept-Encoding": "gzip"})
            answer = connected.getresponse()
            answer.read()
            self.answers += answer.status == 200
        except (OSError, http.client.HTTPException):  # refused because of the load, or the server has ended
            self.ended.wait(0.1)
        finally:
            connected.close()


@contextmanager
def reading(readers: Sequence[PageReader]) -> Iterator[None]:
    with ExitStack() as stack:
        for reader in readers:
            reader.start()
            stack.callback(reader.ended.set)
        yield
