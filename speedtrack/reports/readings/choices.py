"""What an address names among what there is."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from django.http import Http404


class Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def named_or_default(kind: str, name: str | None, among: Iterable[N], default: str) -> N | None:
    """The item with this name; without a name the one named ``default``, otherwise the first. Raises Http404."""
    by_name = {item.name: item for item in among}
    if name and name not in by_name:
        raise Http404(f"There is no {kind} {name!r} here: there are {', '.join(by_name) or 'none'}.")
    return by_name.get(name or default) or next(iter(by_name.values()), None)
