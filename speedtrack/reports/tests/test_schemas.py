"""The name of a schema is that of one document."""

import ast
import re
from collections import defaultdict

from speedtrack.processes.devstack import BASE_DIR

NAME = re.compile(r"speedtrack\.[a-z-]+/\d+")


def test_each_name_is_written_in_one_module() -> None:
    """By modules of the server: as the value of a key `schema`, or of a constant."""
    written = defaultdict(set)
    for file in (BASE_DIR / "speedtrack").rglob("*.py"):
        if "tests" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            values = []
            if isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                values = [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "schema"]
            elif isinstance(node, ast.Assign):
                values = [node.value]
            for value in values:
                if isinstance(value, ast.Constant) and isinstance(value.value, str) and NAME.fullmatch(value.value):
                    written[value.value].add(str(file.relative_to(BASE_DIR)))
    assert len(written) > 15
    assert {name: files for name, files in written.items() if len(files) > 1} == {}
