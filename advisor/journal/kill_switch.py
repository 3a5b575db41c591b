"""The kill switch: while it is thrown, Fallow does nothing of its own to anybody.

It is read before every single step. Two places throw it, and either is enough: the row ``acting`` of the
table ``switches``, which the service writes and which outlives it, and the file ``stop-acting`` in the DATA
folder, which whoever owns that folder can make with no service to ask, or one that is too busy to answer.
Only starting again takes both away.

A service that may not be the head of its nodes, or is not any more, says so by ``withheld``: then nothing is
done either, and no start by a person changes that.

On a store that holds a simulated cluster it is thrown for good, whatever anybody says: there is nothing real
to act on.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.statements import asked, statement
from collector.store.origin import Origin

if TYPE_CHECKING:
    from collector.store.database import Store

NAME = "acting"
FILE_NAME = "stop-acting"
# The file holds one sentence; more than this is read by nobody.
MOST_BYTES = 65_536
SIMULATED = "this cluster is simulated: no job is started, moved or paused on GPUs that are not there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Whether Fallow may act; who said so last, when (UTC ms) and why. No ``at_ms``: nobody ever did."""

    acting: bool
    by: str = ""
    at_ms: int | None = None
    because: str = ""

    @property
    def halt(self) -> str | None:
        """Why nothing may be done, as a sentence; ``None`` while acting is on."""
        if self.acting:
            return None
        why = f": {self.because}" if self.because else ""
        return f"acting was stopped by {self.by or 'somebody'}{why}; `fallow start-acting` lets it go on"


class KillSwitch:
    """The switch of one DATA folder. Safe to call from several threads."""

    def __init__(
        self, store: "Store", folder: Path, withheld: Callable[[], str | None] = lambda: None
    ) -> None:
        self._store, self._withheld = store, withheld
        self._path = stop_file(folder)
        self._kept = _read_row(store)

    def setting(self) -> Setting:
        """How it stands now: what a person said, else what a simulated cluster asks for.

        Costs one look at the folder; a file that cannot be looked at stops.
        """
        filed = read_file(self._path)
        setting = self._kept if filed is None or not self._kept.acting else filed
        if setting.acting and self._store.origin is Origin.SIMULATED:
            return Setting(acting=False, because=SIMULATED)
        if setting.acting and (reason := self._withheld()) is not None:
            return Setting(acting=False, because=reason)
        return setting

    def halt(self) -> str | None:
        """Why nothing may be done; ``None`` while acting is on."""
        if self._store.origin is Origin.SIMULATED:
            return SIMULATED
        return self._withheld() or self.setting().halt

    def adopt(self) -> Setting:
        """Keep what the file says in the store as well, so that it outlives the file. Raises StoreFull."""
        filed = read_file(self._path)
        if filed is not None and self._kept.acting:
            self._keep(filed)
        return self.setting()

    def stop(self, by: str, at_ms: int, because: str) -> Setting:
        """Stop acting, from now on and after a restart; holds in this process even when the store is full."""
        stopped = Setting(acting=False, by=by, at_ms=at_ms, because=because)
        self._kept = stopped
        self._keep(stopped)
        return stopped

    def start(self, by: str, at_ms: int, because: str = "") -> Setting:
        """Act again. Raises StoreFull or OSError, and then acting stays stopped."""
        started = Setting(acting=True, by=by, at_ms=at_ms, because=because)
        before, self._kept = (
            self._kept,
            Setting(acting=False, by=by, at_ms=at_ms, because="it is being started"),
        )
        try:
            self._path.unlink(missing_ok=True)
            self._write(started)
        except BaseException:
            self._kept = before if not before.acting else self._kept
            raise
        self._kept = started
        return started

    def _keep(self, setting: Setting) -> None:
        self._kept = setting
        self._write(setting)

    def _write(self, setting: Setting) -> None:
        row = {
            "name": NAME,
            "is_on": setting.acting,
            "at_ms": setting.at_ms or 0,
            "by_user": setting.by,
            "because": setting.because,
        }
        with self._store.writing("setting the switch of acting") as connection:
            connection.execute(statement("set_switch"), row)


def stop_file(folder: Path) -> Path:
    """The file that stops acting while it is there."""
    return folder / FILE_NAME


def write_file(folder: Path, setting: Setting) -> Path:
    """Stop acting by the file alone, whole or not at all, and durable. Raises OSError."""
    path = stop_file(folder)
    draft = path.with_name(f".{FILE_NAME}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as out:
        json.dump(asdict(setting), out)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(path)
    return path


def read_file(path: Path) -> Setting | None:
    """What the file says; ``None`` only when there is none. One that cannot be read stops all the same."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Setting(acting=False, because=f"{path.name} is there and cannot be read: {error.strerror}")
    return _setting_of(text) or Setting(acting=False, because=f"there is a file {path.name}")


def _setting_of(text: bytes) -> Setting | None:
    try:
        tree: Any = json.loads(text)
        at_ms = tree["at_ms"]
        return Setting(
            acting=False,
            by=str(tree["by"]),
            at_ms=None if at_ms is None else int(at_ms),
            because=str(tree["because"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _read_row(store: "Store") -> Setting:
    rows = asked(store, "read_switch", {"name": NAME})
    if not rows:
        return Setting(acting=True)
    row = rows[0]
    return Setting(acting=row["is_on"], by=row["by_user"], at_ms=row["set_ms"], because=row["because"])
