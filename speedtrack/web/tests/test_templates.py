"""Templates, which nothing compiles before a page shows them."""

from pathlib import Path

import pytest
from django.template.loader import get_template

import speedtrack

TEMPLATES = sorted(Path(speedtrack.__path__[0]).glob("**/templates/*/**/*.*"))


@pytest.mark.parametrize("name", [str(path).rpartition("/templates/")[2] for path in TEMPLATES])
def test_a_template_compiles(name: str) -> None:
    """Its tags and filters are loaded, and called with the arguments that they want."""
    assert get_template(name).render is not None
