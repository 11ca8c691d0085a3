"""The walk on fresh machines finds in docs/installing.md what it replaces there."""

from pathlib import Path

from research.fresh_debian import __main__ as walk
from research.fresh_debian import page

TEXT = page.PAGE.read_text()
BLOCKS = page.blocks(TEXT)


def test_each_block_says_where_it_is_run() -> None:
    assert {block.where for block in BLOCKS} == {"server", "machine", "upgrade"}
    assert TEXT.count("```sh ") == len(BLOCKS)
    assert BLOCKS[0].script.splitlines()[-1] == f"/opt/speedtrack-*/deploy/install {walk.ADDRESS}"


def test_what_the_walk_replaces_is_there() -> None:
    scripts = "\n".join(block.script for block in BLOCKS)
    for example in (walk.ADDRESS, walk.CODE, walk.TRACKED, "speedtrack-new.tar.gz", "/opt/speedtrack-new/"):
        assert example in scripts, example


def test_a_section_is_replaced_alone(tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    copy.write_text("# Title\n\n## One\n\nold\n\n## Two\n\nkept\n")
    page.write_section("One", "new\n", copy)
    page.write_section("One", "newer\n", copy)
    assert copy.read_text() == "# Title\n\n## One\n\nnewer\n\n## Two\n\nkept\n"
    page.write_section("Two", "last\n", copy)
    assert copy.read_text() == "# Title\n\n## One\n\nnewer\n\n## Two\n\nlast\n"


def test_the_page_has_the_sections_that_are_written() -> None:
    assert all(f"\n## {heading}\n" in TEXT for heading in (page.FIGURES, page.NEWCOMER))
