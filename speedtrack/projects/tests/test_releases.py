import pytest

from speedtrack.projects.releases import newest_patches, version_of


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("7.2.4", (7, 2, 4)),
        ("v1.3.6", (1, 3, 6)),
        ("release-8.0", (8, 0)),
        ("7.0.0.1", (7, 0, 0, 1)),
        ("2.6.0-rc1", None),
        ("3.0-beta", None),
        ("vm-playpen", None),
        ("v2", None),
        ("7.2.4\n", None),
        ("٧.٢", None),
    ],
)
def test_only_versions_are_releases(tag: str, version: tuple[int, ...] | None) -> None:
    assert version_of(tag) == version


def test_the_newest_patch_stands_for_its_minor_version() -> None:
    tags = ["7.2.10", "7.2.9", "6.2.1", "7.0.0", "7.0.15", "8.0-rc1", "10.0.0", "v1.0.0"]
    assert newest_patches(tags) == ["v1.0.0", "6.2.1", "7.0.15", "7.2.10", "10.0.0"]
    assert newest_patches(tags, "7.*") == ["7.0.15", "7.2.10"]
    assert newest_patches(tags, "w*") == []
