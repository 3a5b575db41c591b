"""How a key is declared: its default, its bounds, and the sentence that the reference prints of it.

The sentence (``about``) is Markdown, in lower case and without a full stop. A test demands one of every key.
"""

from dataclasses import MISSING, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from dataclasses import _MISSING_TYPE


T = TypeVar("T")
V = TypeVar("V")


class Misplaced(ValueError):
    """A value that does not go with another one; ``where`` is the path of its key."""

    def __init__(self, message: str, *where: str) -> None:
        super().__init__(message)
        self.where = where


def bounded(default: T, low: float | None = None, high: float | None = None, about: str = "") -> T:
    """A field whose value, checked at the door, lies in ``[low, high]``; an open end is ``None``."""
    return field(default=default, metadata={"low": low, "high": high, "about": about})


@overload
def told(default: "_MISSING_TYPE", about: str) -> Any: ...
@overload
def told(default: T, about: str) -> T: ...
def told(default: object, about: str) -> object:
    """A field that has no bounds; ``MISSING`` as its default: it has to be given."""
    if default is MISSING:
        return field(metadata={"about": about})
    return field(default=default, metadata={"about": about})


def names(about: str, low: float | None = None, high: float | None = None) -> dict[str, V]:
    """A field for a table whose keys the site chooses; the bounds are those of its values."""
    return field(default_factory=dict, metadata={"low": low, "high": high, "about": about})


def others() -> dict[str, V]:
    """A field for the tables of names that are no field here: ``[modes.PROJECT]`` beside ``[modes]``."""
    return field(default_factory=dict, metadata={"others": True})
