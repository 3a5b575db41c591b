"""The pages of a job's idle gaps, made and read by its launcher; the library in the job writes on them.

    /dev/shm/fallow.UID.PID.XXXX/GPU      a page for each GPU of a foreground (folder 0700, page 0600)
    /dev/shm/fallow.UID.PID.XXXX/counts   what a background job does in another account's gaps: its own page

A background job of another account may read the page of the GPU that it is sent to, by an access list, and
write none of the foreground's. Nobody may fill a gap until the service says so, and not while the service is
out of reach. The folder goes with its launcher; what one that was killed left is removed by its user's next
launcher.
"""

import os
import pwd
import shutil
import tempfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from advisor.jobs.model import Elasticity, IdleGapCounts
from advisor.state.model import ActionClass
from collector.model import GpuUuid
from fallow.idle_gaps import page as pages
from fallow.idle_gaps.readers import let_enter, let_read
from service.launcher.model import Lease
from service.launcher.order import Order
from service.launcher.world import Workers

OWN_GAPS, OTHERS_GAPS = "FALLOW_OWN_IDLE_GAPS", "FALLOW_IDLE_GAPS"
COUNTS = "FALLOW_IDLE_GAP_COUNTS"
"""``fallow.idle_gaps.announce`` and ``.gate`` have them as ``ENV_PAGE``, ``ENV_COUNTS``; those load torch."""

MEMORY = Path("/dev/shm")
"""Shared memory on Linux: a page on a disk would be written back to it again and again."""


class IdleGapPages:
    """Those that this launcher made, or the one that its background job computes by."""

    def __init__(self, order: Order, memory: Path = MEMORY) -> None:
        submission = order.submission
        alone = order.workers is Workers.ONE and submission.max_gpus == 1 and submission.share == 1
        self._announces = (
            not submission.background
            and ActionClass.BACKGROUND not in submission.opted_out
            and (submission.mobility is Elasticity.ELASTIC or alone)
        )
        self._memory = memory
        self._folder: Path | None = None
        self._own: dict[GpuUuid, tuple[Path, pages.Page]] = {}
        self._open: frozenset[GpuUuid] = frozenset()
        self._let_in: tuple[frozenset[tuple[GpuUuid, str]], frozenset[GpuUuid]] = (frozenset(), frozenset())
        """The readers whose access lists are set, and on the pages of which GPUs."""
        self._others: tuple[GpuUuid, str, pages.Page, int, float] | None = None

    def launched(self, lease: Lease) -> dict[str, str]:
        """Make or find the pages for a launch on ``lease``; what its workers' environment gets.

        Raises OSError where a background job cannot use the page that it was given.
        """
        self._forget()
        if lease.page:
            if self._is_of_another(Path(lease.page)):
                path = self._made() / "counts"
                path.unlink(missing_ok=True)
                page = pages.create(path)
                self._others = lease.gpus[0], lease.page, page, 0, 0.0
                return {OTHERS_GAPS: lease.page, COUNTS: str(path)}
            page = pages.attach(Path(lease.page))
            self._others = lease.gpus[0], lease.page, page, page.steps[1], page.worked_s
            return {OTHERS_GAPS: lease.page}
        self.hold(lease.gpus)
        return {} if self._folder is None else {OWN_GAPS: str(self._folder)}

    def hold(self, gpus: Sequence[GpuUuid]) -> None:
        """Have a page for each of these GPUs: those that an elastic training has from now on as well."""
        if not self._announces:
            return
        try:
            self._made()
            for gpu in gpus:
                if gpu not in self._own:
                    path = self._made() / gpu.replace("/", "_")
                    self._own[gpu] = path, pages.create(path)
        except OSError:
            self._announces = False  # no shared memory here: then nobody computes in its gaps

    def allow(self, gpus: Collection[GpuUuid], readers: Collection[tuple[GpuUuid, str]] = ()) -> None:
        """Let background jobs compute in the idle gaps of these GPUs, and of no others; and let the accounts
        of these names, and no others, read the page of each.
        """
        self._let_read(frozenset(readers))
        self._open = frozenset(gpus)
        for gpu, (_, page) in self._own.items():
            page.allow(is_allowed=gpu in self._open)

    def counts(self, gpus: Sequence[GpuUuid]) -> tuple[IdleGapCounts, ...]:
        """What the pages say: of those GPUs on which steps were announced, or of a background job itself."""
        if self._others is not None:
            gpu, path, page, steps, worked_s = self._others
            done, work_s = page.steps[1] - steps, page.worked_s - worked_s
            each_s = work_s / done if done > 0 and work_s > 0 else None
            return (IdleGapCounts(gpu=gpu, page=path, steps=max(0, done), work_s=each_s),)
        return tuple(
            IdleGapCounts(
                gpu=gpu,
                page=str(path),
                steps=page.steps[0],
                alone_s=page.alone_s,
                gaps_s=page.gaps_s,
                slowdown_ratio=page.slowdown,
            )
            for gpu, (path, page) in self._own.items()
            if gpu in gpus and page.steps[0] > 0
        )

    def close(self) -> None:
        """Shut every gate and remove the pages: the job is over."""
        self.allow(())
        self._forget()
        for _, page in self._own.values():
            page.close()
        self._own = {}
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _made(self) -> Path:
        """The folder of this launcher's pages. Raises OSError where there is no shared memory."""
        if self._folder is None:
            # Folders of this account whose launcher is gone.
            for each in self._memory.glob(f"fallow.{os.geteuid()}.*.*"):
                with suppress(OSError, ValueError):
                    pid = int(each.name.split(".")[2])
                    if each.lstat().st_uid == os.geteuid() and not Path(f"/proc/{pid}").exists():
                        shutil.rmtree(each, ignore_errors=True)
            prefix = f"fallow.{os.geteuid()}.{os.getpid()}."
            self._folder = Path(tempfile.mkdtemp(prefix=prefix, dir=self._memory))
        return self._folder

    def _is_of_another(self, path: Path) -> bool:
        """Whether another account's launcher made this page. Raises PageError where that isn't told."""
        with suppress(pages.PageError):
            return pages.folder_of(path) != os.geteuid()
        return False  # as before there were such folders: it is attached, or refused, as our own

    def _let_read(self, readers: frozenset[tuple[GpuUuid, str]]) -> None:
        """Who cannot be let in, for want of access lists, waits before a page that he cannot read."""
        due = readers, frozenset(self._own)
        if due == self._let_in or self._folder is None:
            return
        accounts = {
            gpu: {uid for each, name in readers if each == gpu for uid in _uid(name)} for gpu in self._own
        }
        with suppress(OSError):
            let_enter(self._folder, set().union(*accounts.values()))
            for gpu, (path, _) in self._own.items():
                let_read(path, accounts[gpu])
            self._let_in = due  # what failed is tried again at the next word

    def _forget(self) -> None:
        if self._others is not None:
            self._others[2].close()
            self._others = None


def _uid(name: str) -> tuple[int, ...]:
    """The account's number; none for a name that nobody has on this machine."""
    try:
        return (pwd.getpwnam(name).pw_uid,)
    except KeyError:
        return ()
