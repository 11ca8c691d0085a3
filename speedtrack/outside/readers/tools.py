"""The reader of one tool's format, made of two functions: one recognises a file, one gathers its results."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from speedtrack.outside.readers import Options, OutsideResult, ReadError
from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.results import FileResults


@dataclass(frozen=True)
class ToolReader:
    """``name``: what ``--format`` calls it. ``title``: the tool, as people know it.

    ``parts``: divides a file that may be too large to be read at once.
    """

    name: str
    title: str
    recognises: Callable[[File], bool]
    gather: Callable[[File, FileResults], None]
    parts: Callable[[File], Iterator[File]] = lambda file: iter((file,))

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
        """All results, and what was left out. Raises ReadError."""
        reading = FileResults(options)
        for part in self.readings(file, options):
            reading.results += part.results
            reading.left_out += part.left_out
        return reading.finished()

    def readings(self, file: File, options: Options) -> Iterator[FileResults]:
        """The results of each part of a file, perhaps none. Raises ReadError."""
        file.check()
        for part in self.parts(file):
            reading = FileResults(options)
            self.gather(part, reading)
            yield reading
