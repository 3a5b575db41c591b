"""The dozen people of a cell, their projects, and the hours they keep.

Pure. A person's day is local (UTC+1 all year: a simulated town without summer time), absence and tardiness
are drawn per day.
"""

from dataclasses import dataclass

import numpy as np

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
TOWN_OFFSET_MS = HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who somebody is and when they sit at their desk, in local hours of the day."""

    user: str
    uid: int
    project: str
    starts_h: float
    ends_h: float
    weekend_ratio: float = 0.05


_CELL: tuple[Person, ...] = (
    Person(user="amara", uid=2001, project="language", starts_h=9.0, ends_h=18.5, weekend_ratio=0.15),
    Person(user="bjorn", uid=2002, project="language", starts_h=8.0, ends_h=16.5),
    Person(user="chen", uid=2003, project="language", starts_h=10.5, ends_h=21.0, weekend_ratio=0.4),
    Person(user="divya", uid=2004, project="vision", starts_h=9.0, ends_h=17.5),
    Person(user="emil", uid=2005, project="vision", starts_h=9.5, ends_h=19.0, weekend_ratio=0.1),
    Person(user="farah", uid=2006, project="vision", starts_h=8.5, ends_h=17.0),
    Person(user="goran", uid=2007, project="genomics", starts_h=8.0, ends_h=17.0),
    Person(user="hana", uid=2008, project="genomics", starts_h=9.5, ends_h=18.0),
    Person(user="ines", uid=2009, project="genomics", starts_h=10.0, ends_h=18.5, weekend_ratio=0.1),
    Person(user="jonas", uid=2010, project="serving", starts_h=9.0, ends_h=18.0),
    Person(user="kofi", uid=2011, project="serving", starts_h=8.5, ends_h=17.5),
    Person(user="lena", uid=2012, project="serving", starts_h=9.5, ends_h=18.5),
)
PROJECTS: tuple[str, ...] = ("language", "vision", "genomics", "serving")


def people_of(cell: int) -> tuple[Person, ...]:
    """A cell's twelve; beyond the first cell their names carry its number."""
    if cell == 0:
        return _CELL
    return tuple(
        Person(
            user=f"{person.user}{cell}",
            uid=person.uid + 100 * cell,
            project=person.project,
            starts_h=person.starts_h,
            ends_h=person.ends_h,
            weekend_ratio=person.weekend_ratio,
        )
        for person in _CELL
    )


def desk_hours(
    person: Person, draw: np.random.Generator, from_ms: int, to_ms: int
) -> tuple[tuple[int, int], ...]:
    """When the person is at the desk within ``[from_ms, to_ms)``: mornings and afternoons, whole minutes."""
    first = (from_ms + TOWN_OFFSET_MS) // DAY_MS
    last = (to_ms + TOWN_OFFSET_MS) // DAY_MS
    hours: list[tuple[int, int]] = []
    for day in range(first, last + 1):
        chance, late, lunch, meal, stays = draw.random(5)
        if chance > (person.weekend_ratio if _is_weekend(day) else 0.95):
            continue
        begin = person.starts_h + late - 0.4
        noon = 12.0 + lunch
        back = noon + 0.6 + 0.8 * meal
        end = person.ends_h + 1.5 * stays - 0.75
        hours += [_clock(day, begin, noon), _clock(day, back, end)]
    clipped = ((max(a, from_ms), min(b, to_ms)) for a, b in hours)
    return tuple((a, b) for a, b in clipped if b > a)


def next_desk_ms(person: Person, draw: np.random.Generator, at_ms: int) -> int:
    """The first minute from ``at_ms`` on at which the person would submit something."""
    hours = desk_hours(person, draw, at_ms, at_ms + 8 * DAY_MS)
    return hours[0][0] if hours else at_ms + 8 * DAY_MS


def _is_weekend(day: int) -> bool:
    return (day + 3) % 7 >= 5


def _clock(day: int, begin_h: float, end_h: float) -> tuple[int, int]:
    start = day * DAY_MS - TOWN_OFFSET_MS
    return (
        start + round(begin_h * 60) * MINUTE_MS,
        start + round(end_h * 60) * MINUTE_MS,
    )
