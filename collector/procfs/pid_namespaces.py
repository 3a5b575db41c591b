"""Process ids of another pid namespace, as they are called here: by ``NSpid`` in /proc/PID/status.

``NSpid`` lists a process's id in this /proc's own namespace first, then in each one further in (proc(5)). A
number that a process says of another one is of its own namespace.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from collector.procfs.proc_files import parse_stat, read_file

PROC = Path("/proc")
MOST_ANCESTORS = 4_096
"""So far up is gone: no chain is so long, and one that changes meanwhile may lead in a circle."""


def ids_of(pid: int, proc: Path = PROC) -> tuple[int, ...]:
    """The ids of a process, from this /proc's namespace inwards; empty where it cannot be read."""
    for line in (read_file(proc / str(pid) / "status") or b"").splitlines():
        if line.startswith(b"NSpid:"):
            return tuple(int(each) for each in line.split()[1:])
    return ()


def translated(pids: Iterable[int], teller: int, proc: Path = PROC) -> tuple[int, ...]:
    """The processes that ``teller`` means by these ids, as they are called here; those it can't mean are left
    out. Reads every process's status where the teller lives in a namespace of its own.

    Only the teller's own descendants, and what shares its namespace, are meant.
    """
    own = ids_of(teller, proc)
    distinct = tuple(dict.fromkeys(pids))
    if len(own) <= 1 or not distinct:
        return distinct if own else ()
    depth, space = len(own) - 1, _namespace(teller, proc)
    translations: dict[int, int] = {}
    for name in os.listdir(proc):  # noqa: PTH208 - names alone, of thousands
        ids = ids_of(int(name), proc) if name.isdigit() else ()
        if len(ids) > depth and ids[depth] in distinct and _is_near(ids[0], teller, space, proc):
            translations.setdefault(ids[depth], ids[0])
    return tuple(translations[each] for each in distinct if each in translations)


def _is_near(pid: int, teller: int, space: str | None, proc: Path) -> bool:
    if space is not None and _namespace(pid, proc) == space:
        return True
    for _ in range(MOST_ANCESTORS):
        if pid == teller:
            return True
        stat = read_file(proc / str(pid) / "stat")
        try:
            pid = 0 if stat is None else parse_stat(stat).parent_pid
        except ValueError:
            return False
        if pid == 0:
            return False
    return False


def _namespace(pid: int, proc: Path) -> str | None:
    """The name of its pid namespace; ``None`` where it may not be read."""
    try:
        return str((proc / str(pid) / "ns" / "pid").readlink())
    except OSError:
        return None
