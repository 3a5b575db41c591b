"""Writes a /proc of its own under a temporary folder, file by file as proc(5) describes them."""

import os
import shutil
from pathlib import Path

BOOT_S = 1_790_000_000
HOST_NAMESPACE = "pid:[4026531836]"


class ProcTree:
    """A small /proc: boot time, the reader's own entry, and whatever processes a test puts in."""

    def __init__(self, root: Path, *, namespace: str = HOST_NAMESPACE, mount_options: str = "rw") -> None:
        self.root = root
        (root / "self" / "ns").mkdir(parents=True)
        (root / "self" / "ns" / "pid").symlink_to(namespace)
        (root / "stat").write_text(f"cpu  1 2 3 4\nbtime {BOOT_S}\nprocesses 12\n")
        self.mount(mount_options)

    def mount(self, options: str) -> None:
        line = f"22 27 0:21 / {self.root} rw,relatime - proc proc {options}\n"
        (self.root / "self" / "mountinfo").write_text(line)

    def add(
        self,
        pid: int,
        *,
        name: str = "python",
        argv: tuple[str, ...] = ("python", "train.py"),
        parent: int = 1,
        uid: int = 1000,
        started_ticks: int = 5_000,
        group: int | None = None,
        tty: int = 0,
        foreground_group: int = -1,
        cgroup: str = "0::/user.slice\n",
        maps: tuple[str, ...] = ("/usr/bin/python3.11",),
        environ: dict[str, str] | None = None,
        opens: tuple[str, ...] = ("/dev/null",),
        login_uid: int = 2**32 - 1,
    ) -> Path:
        folder = self.root / str(pid)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        group = pid if group is None else group
        head = f"{pid} ({name}) S {parent} {group} {group} {tty} {foreground_group} 4194304"
        middle = " 0" * 12
        (folder / "stat").write_text(f"{head}{middle} {started_ticks} 1000 100" + " 0" * 28 + "\n")
        (folder / "status").write_text(f"Name:\t{name}\nPid:\t{pid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (folder / "cmdline").write_bytes(b"".join(a.encode() + b"\0" for a in argv))
        (folder / "cgroup").write_text(cgroup)
        (folder / "loginuid").write_text(str(login_uid))
        self.map(pid, maps)
        block = b"".join(f"{k}={v}".encode() + b"\0" for k, v in (environ or {}).items())
        (folder / "environ").write_bytes(block)
        (folder / "fd").mkdir()
        for number, target in enumerate(opens):
            (folder / "fd" / str(number)).symlink_to(target)
        return folder

    def map(self, pid: int, paths: tuple[str, ...]) -> None:
        lines = [
            f"7f{i:010x}-7f{i + 1:010x} r-xp 00000000 fe:00 {i + 9}   {p}\n" for i, p in enumerate(paths)
        ]
        lines.append("7ffd5b5e2000-7ffd5b603000 rw-p 00000000 00:00 0   [stack]\n")
        (self.root / str(pid) / "maps").write_text("".join(lines))

    def remove(self, pid: int) -> None:
        shutil.rmtree(self.root / str(pid))


def started_ms(ticks: int) -> int:
    return BOOT_S * 1000 + ticks * 1000 // os.sysconf("SC_CLK_TCK")
