"""The reader of one tool's format, made of two functions: one recognises a file, one gathers its results."""

from collections.abc import Callable
from dataclasses import dataclass

from speedtrack.outside.readers import Options, OutsideResult, ReadError
from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.results import FileResults


@dataclass(frozen=True)
class ToolReader:
    """``name``: what ``--format`` calls it. ``title``: the tool, as people know it."""

    name: str
    title: str
    recognises: Callable[[File], bool]
    gather: Callable[[File, FileResults], None]

    def sniff(self, content: bytes, name: str) -> bool:
        file = File(content, name)
        try:
            file.check()
        except ReadError:
            return False
        return self.recognises(file)

    def read(self, content: bytes, options: Options) -> list[OutsideResult]:
        return self.reading(File(content, options.name), options).results

    def reading(self, file: File, options: Options) -> FileResults:
        """The results, and the parts that were left out. Raises ReadError."""
        file.check()
        reading = FileResults(options)
        self.gather(file, reading)
        return reading.finished()
