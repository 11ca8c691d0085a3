"""Claims beside a visitor with many tabs of the dearest page, from the web server that an installation runs."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from research.scale.costs.claimers import web_server
from research.scale.costs.meter import Cost
from research.scale.costs.viewers import claims
from speedtrack.runs.models import Machine

TABS = 50


def beside_tabs(address: str, tabs: int = TABS) -> Cost:
    """What claims of a machine cost while each tab loads the address again and again. Everything is undone."""
    machine = Machine.objects.earliest("pk")
    with web_server() as (port, web), loading(port, address, tabs):
        return claims(machine, port, web)


@contextmanager
def loading(port: int, address: str, tabs: int) -> Iterator[None]:
    """Load an address in this many connections during the block."""
    ended, all_begun = threading.Event(), threading.Barrier(tabs + 1)
    threads = [threading.Thread(target=load, args=(port, address, ended, all_begun)) for _ in range(tabs)]
    for thread in threads:
        thread.start()
    all_begun.wait()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def load(port: int, address: str, ended: threading.Event, all_begun: threading.Barrier) -> None:
    connected = http.client.HTTPConnection("127.0.0.1", port)
    all_begun.wait()
    while not ended.is_set():
        connected.request("GET", address)
        connected.getresponse().read()
    connected.close()
