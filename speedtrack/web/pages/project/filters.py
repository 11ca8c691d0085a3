"""The filters of a grid: by words of benchmark names, and by a tag, as the address states."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from django.http import QueryDict

LONGEST_TEXT = 100


def words_of(benchmark: str) -> set[str]:
    return set(re.split(r"[-_.]", benchmark)) - {""}


@dataclass(frozen=True)
class GridFilters:
    """``text``: words that must all occur in a benchmark's name; ``tag``: its group, or a whole word of its name."""

    text: str = ""
    tag: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> "GridFilters":
        return cls(query.get("q", "")[:LONGEST_TEXT].strip(), query.get("tag", "")[:LONGEST_TEXT])

    def admits(self, benchmark: str, group: str) -> bool:
        # frontend/src/filter.ts does the same.
        by_text = all(term in benchmark.lower() for term in self.text.lower().split())
        return by_text and (not self.tag or self.tag == group or self.tag in words_of(benchmark))


@dataclass(frozen=True)
class TagChoices:
    """The groups of all benchmarks of a grid, and the words that several of their names share."""

    groups: list[str]
    words: list[str]

    @classmethod
    def of(cls, groups: dict[str, str], benchmarks: Iterable[str]) -> "TagChoices":
        names = list(benchmarks)
        group_names = list(dict.fromkeys(groups[name] for name in names))
        counts = Counter(term for name in names for term in words_of(name))
        shared = {term for term, count in counts.items() if 1 < count < len(names)}
        return cls(group_names, sorted(shared - set(group_names)))
