"""pytest-benchmark, ``--benchmark-json``: the time of each round; the median if the file has no rounds."""

from speedtrack.outside.readers import ReadError, Word
from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.measures import TIME_S
from speedtrack.outside.readers.nodes import Node
from speedtrack.outside.readers.results import FileBenchmark, FileOrigin, FileResults, FileSummary
from speedtrack.outside.readers.tools import ToolReader

FACTS = ("machine", "system", "release", "python_implementation", "python_version", "python_compiler")


def recognises(file: File) -> bool:
    return file.json.has("machine_info", "benchmarks")


def gather(file: File, reading: FileResults) -> None:
    document = file.document
    origin = origin_of(document, reading)
    for benchmark in document["benchmarks"].list():
        with reading.part():
            name = (benchmark.get("fullname") or benchmark["name"]).text()
            reading.add(FileBenchmark(name), TIME_S, times_of(benchmark["stats"], reading), origin, benchmark.pointer)


def times_of(stats: Node, reading: FileResults) -> list[float] | FileSummary:
    rounds = stats.get("data")
    if rounds and rounds.list():
        return reading.amounts(rounds.list())
    count = stats.get("rounds")
    return FileSummary(stats["median"].amount(), n=count.count() if count else None)


def origin_of(document: Node, reading: FileResults) -> FileOrigin:
    machine = document["machine_info"]
    node = machine.get("node")
    return FileOrigin(
        commit=commit_of(document, reading),
        machine=node.text() if node else "",
        environment=environment_of(machine, reading),
        measured_at=reading.moment(document.get("datetime"), Node.moment),
    )


def commit_of(document: Node, reading: FileResults) -> str:
    """The commit of the working copy; refused if files differ from it, unless the caller states one."""
    commit = document.get("commit_info")
    if commit is None or not commit.has("id"):
        return ""
    if commit.has("dirty") and commit["dirty"].value is not False and not reading.options.commit:
        raise ReadError(
            f"{commit['id'].text()[:12]} was measured with changes that are not committed",
            commit.pointer,
            "commit them and measure again, or state the commit",
        )
    return commit["id"].text()


def environment_of(machine: Node, reading: FileResults) -> dict[str, Word]:
    cpu = machine.get("cpu")
    of_cpu = {"cpu_brand": cpu.get("brand_raw"), "cpu_count": cpu.get("count")} if cpu else {}
    return reading.words([*((name, machine.get(name)) for name in FACTS), *of_cpu.items()])


READER = ToolReader("pytest-benchmark", "pytest-benchmark, --benchmark-json", recognises, gather)
