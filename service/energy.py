"""The energy of several rows of the ledger together, and in how much of their time it was measured. Pure.

What was not measured is not in the sum, so a sum is never shown without its part of the time: "of 92% of the
hours". Rows are those of the ledger's queries, from the API or a frame: None and NaN alike are not measured.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analytics import text
from collector.model import WASTE_STATES

WHOLE = 0.995
"""From here on it is 100% as screens write it, and nothing is said."""

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """``kwh`` is ``None`` where none of the time was measured; ``known_ratio`` is the part that was.

    ``None`` there: there was no time at all.
    """

    kwh: float | None
    known_ratio: float | None

    @property
    def partly_of(self) -> float | None:
        """The part of the time that was measured, where it is worth saying: some of it, and not all."""
        if self.kwh is None or self.known_ratio is None or self.known_ratio >= WHOLE:
            return None
        return self.known_ratio


def written(energy: Energy) -> str:
    """``12.3 kWh``, with the part of the hours that was measured where it is not all of them."""
    part = energy.partly_of
    return f"{text.energy(energy.kwh)}{'' if part is None else f' (of {text.percent(part)} of the hours)'}"


def used(rows: Iterable[Row]) -> Energy:
    """What went into all their hours."""
    return _sum(rows, "energy_kwh", "energy_known_ratio", "gpu_hours")


def wasted(rows: Iterable[Row]) -> Energy:
    """What went into their hours that were wasted."""
    return _sum(rows, "wasted_energy_kwh", "wasted_energy_known_ratio", "wasted_gpu_hours")


def _sum(rows: Iterable[Row], kwh: str, ratio: str, hours: str) -> Energy:
    measured = total = measured_kwh = 0.0
    is_any_measured, any_row = False, False
    for row in rows:
        any_row = True
        part, energy = text.known(row.get(ratio)), text.known(row.get(kwh))
        time = text.known(row[hours]) or 0.0
        total += time
        measured_kwh += time * (part or 0.0)
        if energy is not None:
            is_any_measured = True
            measured += energy
    return Energy(
        kwh=measured if is_any_measured or not any_row else None,
        known_ratio=measured_kwh / total if total else None,
    )


WASTED = tuple(sorted(state.value for state in WASTE_STATES))
"""The states that the sum is of, as the query ``ledger_by_state`` names them."""
