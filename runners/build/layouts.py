"""Random layouts: a commit is built once more, and its programs are linked again with their functions in another order.

The build keeps what the programs are linked from: one object for each, made by a partial link, or its whole tree if the
suite has a link command of its own. A link is a build, too, whose source is what was kept. So both take place in the
sandbox or container of any build, with its limits, and what was kept is in the store.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.documents import BuildRecipe, Layouts
from runners.machine.environment import LINKERS

KEPT = ".layouts/kept.tar"  # in the source tree
SCRIPTS = Path(__file__).parent / "scripts"
PACK = """
for name in $artifacts; do
    [ -d ".layouts/kept/$name" ] || { echo "no compiler that SpeedTrack knows has linked $name" >&2; exit 1; }
done
tar -C .layouts -cf .layouts/kept.tar kept && chmod 755 .layouts/kept.tar"""
PACK_TREE = """
mkdir -p .layouts && tar --exclude=./.layouts -cf .layouts/kept.tar . && chmod 755 .layouts/kept.tar"""
LINK_TREE = """
for layout in $layouts; do
    {{ {command}
    }} || exit
    for artifact in {artifacts}; do mv "$artifact" "${{artifact##*/}}.$layout" || exit; done
done"""


def keeping(recipe: BuildRecipe) -> BuildRecipe:
    """The build that keeps, in KEPT, what links need."""
    if layouts_of(recipe).link:
        return replace(recipe, command=f"{{ {recipe.command}\n}} && {PACK_TREE}", artifacts=(KEPT,), layouts=None)
    variables = {"keep": script("keep"), "wrapper": script("wrapper"), "artifacts": " ".join(names_of(recipe))}
    command = f'eval "$keep"; {{ {recipe.command}\n}} && {PACK}'
    return replace(recipe, command=command, artifacts=(KEPT,), environment=recipe.environment | variables, layouts=None)


def linking(recipe: BuildRecipe, seeds: Sequence[int]) -> BuildRecipe:
    """The build that links the kept objects into a program per layout: NAME.SEED."""
    layouts, names = layouts_of(recipe), names_of(recipe)
    variables = {"layouts": " ".join(map(str, seeds))}
    command = 'eval "$link"'
    if layouts.link:
        command = layouts.link.replace("{layout}", "$layout")
        command = LINK_TREE.format(command=command, artifacts=" ".join(recipe.artifacts)).strip()
    else:
        linkers = LINKERS if layouts.linker == "any" else (layouts.linker,)
        variables |= {"link": script("link"), "linkers": " ".join(linkers), "programs": " ".join(names)}
    artifacts = tuple(f"{name}.{seed}" for seed in seeds for name in names)
    return replace(
        recipe, command=command, artifacts=artifacts, environment=recipe.environment | variables, layouts=None
    )


def names_of(recipe: BuildRecipe) -> list[str]:
    return [Path(artifact).name for artifact in recipe.artifacts]


def layouts_of(recipe: BuildRecipe) -> Layouts:
    assert recipe.layouts is not None
    return recipe.layouts


def script(name: str) -> str:
    return (SCRIPTS / f"{name}.sh").read_text()


def by_hand(recipe: BuildRecipe, seed: int) -> dict[str, Any]:
    """The two builds with which a layout is repeated by hand, each as a command and its variables."""
    return {
        step: {"command": build.command, "environment": build.environment}
        for step, build in (("keep", keeping(recipe)), ("link", linking(recipe, [seed])))
    }
