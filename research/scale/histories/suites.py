"""Suites of a wanted number of benchmarks; the small projects use those of `suites/`."""

from itertools import product
from pathlib import Path

TESTS = ("get", "set")
SIZES = (8, 32, 128, 1024, 8192)
PIPELINES = (1, 4, 16, 64, 128, *range(200, 695))  # for at most 5,000 benchmarks
HEAD = """\
name = "{name}"
trials = 5
[build]
command = "make -j{{cores}}"
artifacts = ["src/server"]
[server]
command = "{{artifact:server}} --port {{port}} --unixsocket {{socket}}"
protocol = "resp"
"""
SECTION = """
[[benchmark]]
name = "{test}-{size}-p{pipeline}"
why = "{test} of {size} bytes in batches of {pipeline}"
workload = {{ test = "{test}", clients = 50, pipeline = {pipeline}, keys = {{ count = 100_000 }}, \
values = {{ bytes = {size} }}, prefill = true }}
"""


def write_suite(folder: Path, name: str, benchmarks: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sections = [SECTION.format(test=t, size=s, pipeline=p) for p, s, t in product(PIPELINES, SIZES, TESTS)]
    (folder / f"{name}.toml").write_text(HEAD.format(name=name) + "".join(sections[:benchmarks]))
