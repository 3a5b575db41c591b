"""Who sits at the machine's own screens, as logind writes it down: root's files, which everybody may read.

``/run/systemd/seats/NAME`` is what sd_seat_get_sessions(3) reads; ``UIDS`` are all who have a session there,
also those whose screen is locked and the greeter.
"""

from pathlib import Path

from collector.procfs.proc_files import read_file

SEATS = Path("/run/systemd/seats")


def seated(folder: Path = SEATS) -> frozenset[int] | None:
    """The uids with a session at a seat; ``None`` where no logind is to be seen, as in most containers."""
    try:
        seats = sorted(folder.iterdir())
    except OSError:
        return None
    if not seats:
        return None
    uids: set[int] = set()
    for seat in seats:
        for line in (read_file(seat) or b"").decode("utf-8", "replace").splitlines():
            if line.startswith("UIDS="):
                uids.update(int(word) for word in line.removeprefix("UIDS=").split() if word.isdecimal())
    return frozenset(uids)
