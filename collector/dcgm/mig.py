"""How much of its board a MIG instance is, told from the profile that dcgm-exporter labels it with."""

import re
from collections.abc import Iterable

from collector.dcgm.labels import Identity

_SLICES = 7
_SLICES_BY_MODEL = {"A30": 4, "RTX PRO 6000": 4}
_PROFILE = re.compile(r"(?:\d+c\.)?(\d+)g\.")
_ROUNDING = 1e-9
"""What sevenths leave over when they add up to a whole board is none of it."""


def share_of(who: Identity, parts: Iterable[Identity]) -> float:
    """The share of its board that a device is, 0..1; a parent keeps what its ``parts`` leave.

    An instance counts the compute slices of its profile (``3g.20gb``: 3) over those of the board; one whose
    profile cannot be read counts a single slice, the least there is, so a board never adds up to more than 1.
    """
    if who.parent is not None:
        return _slices(who) / _board_slices(who)
    slices = sum(_slices(part) for part in parts)
    rest = 1.0 - slices / _board_slices(who)
    return rest if rest > _ROUNDING else 0.0


def _slices(instance: Identity) -> int:
    match = _PROFILE.match(instance.profile or "")
    return min(int(match[1]), _board_slices(instance)) if match else 1


def _board_slices(who: Identity) -> int:
    """Boards have 7 slices; A30 and RTX PRO 6000 have 4 (NVIDIA MIG User Guide, supported profiles)."""
    return next((n for name, n in _SLICES_BY_MODEL.items() if name in (who.model or "")), _SLICES)
