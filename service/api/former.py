"""What a launcher that an older Fallow started says and is told, in its words and in today's. Pure."""

from collections.abc import Callable

from advisor.tags import former_command
from service.schemas.answer import Row

NAMES = 2
"""The edition of the names on a launcher's stream: 1 until 0.1.0, when a command was Begin or Suspend."""


def worded(names: int) -> Callable[[Row], Row]:
    """Puts an item of a launcher's stream into the words of a reader of this edition of the names."""
    return _as_it_is if names >= NAMES else _as_before


def _as_it_is(item: Row) -> Row:
    return item


def _as_before(item: Row) -> Row:
    match item:
        case {"directive": {"is": str(tag), **fields}}:
            return {"directive": {"is": former_command(tag), **fields}}
        case _:
            return item
