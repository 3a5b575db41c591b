"""Real or simulated: a store holds GPUs of one origin, for good, and refuses those of the other.

A bill, a finding or a lease on GPUs that were never there is worse than none, and rows that are mixed can't
be told apart later. So the store itself refuses, whoever brings them: a tick, an import, a filled-in past.
"""

from dataclasses import dataclass, field
from enum import StrEnum

import duckdb

from collector.model import SIMULATED_SOURCE
from collector.store.errors import StoreMixed
from collector.store.statements import statement


class Origin(StrEnum):
    """Where the GPUs of a store come from."""

    REAL = "real"
    SIMULATED = "simulated"


@dataclass(slots=True, kw_only=True)
class OriginMark:
    """What the store says of itself; ``None`` while it has held no GPU.

    ``simulated_gpus`` are those that a real store holds from before there was this mark.
    """

    origin: Origin | None
    simulated_gpus: frozenset[str] = field(default_factory=frozenset)

    def is_simulated(self, uuid: str) -> bool:
        """Whether a GPU of this store is an invented one."""
        return self.origin is Origin.SIMULATED or uuid in self.simulated_gpus


def origin_of(source: str) -> Origin:
    """The origin of what a source of this name brings."""
    return Origin.SIMULATED if source == SIMULATED_SOURCE else Origin.REAL


def read_mark(connection: duckdb.DuckDBPyConnection) -> OriginMark:
    """What the file says."""
    row = connection.execute(statement("origin")).fetchone()
    if row is None:
        return OriginMark(origin=None)
    invented = connection.execute(statement("simulated_gpus")).fetchall()
    return OriginMark(origin=Origin(row[0]), simulated_gpus=frozenset(uuid for (uuid,) in invented))


def claim(connection: duckdb.DuckDBPyConnection, mark: OriginMark, source: str, at_ms: int) -> None:
    """Note the origin of what ``source`` brings, in the caller's transaction. Raises StoreMixed."""
    wanted = origin_of(source)
    refuse_other(mark.origin, wanted)
    if mark.origin is None:
        connection.execute(statement("set_origin"), {"origin": wanted.value, "at_ms": at_ms})
        mark.origin = wanted


def refuse_other(held: Origin | None, wanted: Origin) -> None:
    """Raise StoreMixed where a store that holds ``held`` is to take ``wanted``. Pure."""
    if held is None or held is wanted:
        return
    if wanted is Origin.SIMULATED:
        raise StoreMixed(
            "this store has held real GPUs, and simulated ones never go beside them; give the simulated "
            "cluster a folder of its own: `fallow up --simulated --data DIR`"
        )
    raise StoreMixed(
        "this store holds a simulated cluster, and real GPUs never go beside invented ones; choose another "
        "folder with --data, or show the simulated cluster again with --simulated"
    )
