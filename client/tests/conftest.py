"""A command against a small real server."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_server import Run, Server
from speedtrack_client import calls, main


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    for name in [name for name in os.environ if name.startswith("SPEEDTRACK_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(calls, "PAUSES_S", (0.01, 0.01, 0.01))
    monkeypatch.chdir(tmp_path)
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def run(server: Server, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = main.main([*words, "--url", server.url])
        said = capsys.readouterr()
        return int(code), said.out, said.err

    return run
