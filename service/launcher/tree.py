"""Who descends from a process, and which signals it catches, read from /proc.

Only the standard library and nothing of ours, because ``guard`` is run by its path, without our packages.
"""

import os


def descendants(root: int) -> list[int]:
    """Every process below ``root`` of which a thread lives, parents before children.

    One whose first thread has ended is shown as a zombie while its others work on: it is among them.
    """
    children: dict[int, list[int]] = {}
    dead: set[int] = set()
    for pid in _pids():
        result = _kin(pid)
        if result is not None:
            has_ended, parent = result
            children.setdefault(parent, []).append(pid)
            if has_ended:
                dead.add(pid)
    below, waiting = [], list(children.get(root, ()))
    while waiting:
        pid = waiting.pop(0)
        if pid not in dead:
            below.append(pid)
        waiting.extend(children.get(pid, ()))
    return below


def listeners(leader: int, number: int) -> list[int]:
    """The processes of the tree under and with ``leader`` that catch a signal, the nearest ones only.

    What is below a process that catches it is that process's own business: a shell that doesn't catch it is
    passed over, and a training's data loaders are not asked beside their training.
    """
    if catches(leader, number):
        return [leader]
    kin = ((pid, _kin(pid)) for pid in _pids())
    children = [pid for pid, result in kin if result is not None and result[1] == leader]
    return [pid for child in children for pid in listeners(child, number)]


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal (``SigCgt`` in proc_pid_status(5))."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _kin(pid: int) -> tuple[bool, int] | None:
    """Whether nothing of it runs, and its parent; the name in brackets may hold anything, so they stand after
    the last bracket (state, ppid, num_threads of proc_pid_stat(5)).
    """
    rest = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(rest) < 18:
        return None
    return rest[0] in ("Z", "X") and int(rest[17]) <= 1, int(rest[1])


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - no pathlib here


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - no pathlib here
            return file.read()
    except OSError:
        return ""
