"""Which releases of runc are known to hold."""

import pytest

from speedtrack.doctor import safe_runc


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ("1.1.5+ds1", False),
        ("1.2.7", False),
        ("1.2.8", True),
        ("1.3.2", False),
        ("1.3.3-0ubuntu1", True),
        ("1.4.0", True),
        ("1.5.0-rc.3", True),
        ("", False),
    ],
)
def test_an_old_runc_is_told(version: str, safe: bool) -> None:
    assert safe_runc(version) is safe
