"""The groups of benchmarks on pages: from the suite, otherwise by the first word of a name."""

import re
from collections.abc import Mapping
from typing import Any

OTHER = "other"
#: By usual group, the commands with which its names begin. A suite may name its groups freely.
FIRST_WORDS = {
    "reads": "get gets mget gat mg read",
    "writes": "set mset add replace append prepend cas incr decr touch ms ma del write",
    "structures": "hset hget lpush rpush lpop rpop lrange sadd spop zadd zpopmin zpopmax xadd",
    "mixed": "mixed",
    "protocol": "ping mn echo",
    "memory": "memory",
}
GROUP_OF_WORD = {token: group for group, tokens in FIRST_WORDS.items() for token in tokens.split()}


def group_by_name(name: str) -> str:
    """The group of a benchmark without one in its suite."""
    return GROUP_OF_WORD.get(re.split(r"[-_.]", name, maxsplit=1)[0], OTHER)


def groups_of(definition: Mapping[str, Any]) -> dict[str, str]:
    """By benchmark name, in the suite's order: the group in a stored suite."""
    sections = definition["benchmark"]
    return {section["name"]: section.get("group") or group_by_name(section["name"]) for section in sections}
