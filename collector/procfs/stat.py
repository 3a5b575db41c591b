"""The few fields of ``/proc/PID/stat`` and ``/proc/PID/status`` that say who a process is."""

from dataclasses import dataclass

START_SLACK_MS = 2000
"""btime in /proc/stat is rounded to seconds and follows corrections of the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """From ``/proc/PID/stat`` (proc_pid_stat(5)); ``started_ticks`` counts from boot.

    ``tty`` is the device number of the controlling terminal, 0 when there is none; ``foreground_group``
    is the process group that the terminal listens to, -1 without one.
    """

    name: str
    state: str
    parent_pid: int
    group: int
    session: int
    tty: int
    foreground_group: int
    threads: int
    started_ticks: int

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it runs, and it is only to be reaped.

        A process whose first thread has ended is shown as a zombie (Z) while its others work on, and hold its
        memory and its GPUs; the kernel's count of its threads includes the first until the last has ended.
        """
        return self.state in ("Z", "X") and self.threads <= 1


def parse_stat(text: bytes) -> Stat:
    """The fields; the name may hold spaces and brackets, so it ends at the last one. Raises ValueError."""
    opened, closed = text.find(b"("), text.rfind(b")")
    if opened < 0 or closed < opened:
        raise ValueError(f"not a /proc/PID/stat line: {text[:80]!r}")
    rest = text[closed + 1 :].split()
    if len(rest) < 20:
        raise ValueError(f"a /proc/PID/stat line with {len(rest) + 2} fields: {text[:80]!r}")
    return Stat(
        name=text[opened + 1 : closed].decode("utf-8", "replace"),
        state=rest[0].decode(),
        parent_pid=int(rest[1]),
        group=int(rest[2]),
        session=int(rest[3]),
        tty=int(rest[4]),
        foreground_group=int(rest[5]),
        threads=int(rest[17]),
        started_ticks=int(rest[19]),
    )


def started_ms(found: Stat, boot_ms: int, ticks_per_s: int) -> int:
    """When the process started, UTC; the kernel counts in ticks (10 ms) from boot."""
    return boot_ms + found.started_ticks * 1000 // ticks_per_s


def parse_uid(status: bytes) -> int | None:
    """The real user id in ``/proc/PID/status``."""
    return _first_number(status, b"Uid:")


def parse_uids(status: bytes) -> tuple[int, ...]:
    """The real, effective, saved and file system uid there; they differ in a set-uid program."""
    line = next((each for each in status.splitlines() if each.startswith(b"Uid:")), b"Uid:")
    return tuple(int(each) for each in line.split()[1:])


def parse_boot_ms(stat: bytes) -> int:
    """When the machine booted, from ``btime`` in ``/proc/stat``, UTC milliseconds. Raises ValueError."""
    seconds = _first_number(stat, b"btime")
    if seconds is None:
        raise ValueError("no btime line in /proc/stat")
    return seconds * 1000


def is_same_start(one_ms: int, other_ms: int) -> bool:
    """Whether two reckonings of one start time agree: the boot's own time moves as the clock is corrected."""
    return abs(one_ms - other_ms) <= START_SLACK_MS


def _first_number(text: bytes, label: bytes) -> int | None:
    for line in text.splitlines():
        if line.startswith(label):
            return int(line.split()[1])
    return None
