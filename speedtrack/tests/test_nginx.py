"""The lines for nginx in docs/installing.md: accepted as they stand, and a proxy that does what the server needs."""

import json
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from runners.tests.ports import free_port
from speedtrack.http import bodylimits
from speedtrack.notices.tests.servers import certificate
from speedtrack.processes import devstack
from speedtrack.tests.programs import find_nginx
from speedtrack.tests.test_proxy import Behind
from speedtrack.tests.test_webserver import wait_for

pytestmark = pytest.mark.nginx

AROUND = """
daemon off; pid {home}/pid; error_log {home}/log; {user}
events {{}}
http {{
    access_log off;
    client_body_temp_path {home}/body; proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
{page}
}}
"""


def configuration(home: Path, **ports: str) -> list[str]:
    """nginx with the page's lines, whose certificate and ports alone are those of the test."""
    page = (devstack.BASE_DIR / "docs/installing.md").read_text()
    [lines] = re.findall(r"^```\n(server \{.*?)^```", page, flags=re.M | re.S)
    _, authority = certificate(home)
    shutil.copy(authority, home / "speed.pem")
    shutil.copy(home / "key.pem", home / "speed.key")
    lines = lines.replace("/etc/ssl/", f"{home}/")
    for name, port in ports.items():
        lines = re.sub(rf"(?<=[ :]){name.removeprefix('port')}(?=[ ;])", port, lines)
    user = "user root;" if os.geteuid() == 0 else ""  # the files of a test are its owner's
    (home / "nginx.conf").write_text(AROUND.format(home=home, page=lines, user=user))
    return [str(find_nginx()), "-p", str(home), "-c", str(home / "nginx.conf")]


@pytest.fixture
def behind() -> Iterator[Behind]:
    with Behind() as server:
        yield server
        server.go_on.set()
        server.shutdown()


def test_the_lines_are_accepted_as_they_stand(tmp_path: Path) -> None:
    done = subprocess.run([*configuration(tmp_path), "-t"], capture_output=True, text=True)
    assert done.returncode == 0 and "test is successful" in done.stderr, done.stderr
    assert "[warn]" not in done.stderr, done.stderr


def test_they_pass_on_what_the_server_needs(behind: Behind, tmp_path: Path) -> None:
    plain, encrypted, inner = str(free_port()), str(free_port()), str(behind.server_port)
    command = configuration(tmp_path, port80=plain, port443=encrypted, port8000=inner, port8001=inner)
    process = subprocess.Popen(command)
    trusted = ssl.create_default_context(cafile=tmp_path / "authority.pem")
    try:
        wait_for(int(encrypted))
        with httpx.Client(base_url=f"https://127.0.0.1:{encrypted}", verify=trusted, timeout=60) as client:
            headers = {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "http", "Host": "speed.example.org"}
            heard = json.loads(client.get("/p/kvd/", headers=headers).text)
            assert (heard["host"], heard["x-forwarded-proto"]) == ("speed.example.org", "https")
            assert heard["x-forwarded-for"] == "127.0.0.1"
            assert client.post("/hooks/x", content=b"x" * bodylimits.LONGEST).text == "complete"
            assert client.post("/hooks/x", content=b"x" * (27 << 20)).status_code == 413
            with client.stream("GET", "/live/queue") as stream:  # the second event waits for the first to be read
                events = stream.iter_lines()
                assert next(events) == "data: 1"
                behind.go_on.set()
                assert "data: 2" in list(events)
        led = httpx.get(f"http://[::1]:{plain}/p/kvd/?x=1", headers={"Host": "speed.example.org"}, timeout=60)
        assert (led.status_code, led.headers["location"]) == (301, "https://speed.example.org/p/kvd/?x=1")
    finally:
        process.terminate()
        process.wait()
