"""A background job in the idle gaps of another account's job: two real accounts, and one nobody let in."""

import json
import os
import pwd
import select
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import TypeVar

import pytest

from advisor.jobs.background import OpenGaps
from advisor.jobs.model import Elasticity, Submission
from advisor.state.model import ProjectName
from collector.model import GpuUuid, JobId
from fallow.idle_gaps import page as pages
from fallow.idle_gaps.readers import let_enter
from service.control.command_stream import gaps_row
from service.launcher.idle_gaps import COUNTS, MEMORY, OTHERS_GAPS, OWN_GAPS, IdleGapPages
from service.launcher.link import Link, Opened
from service.launcher.model import Lease
from service.launcher.order import Order
from service.schemas.answer import Row
from tests.collector.procfs.observers import in_fork

pytestmark = [
    pytest.mark.quick,
    pytest.mark.skipif(os.geteuid() != 0, reason="two accounts need root"),
]

GPU, OTHER = GpuUuid("GPU-a"), GpuUuid("GPU-b")
GUEST, STRANGER = "nobody", "daemon"
T = TypeVar("T")


def launcher(memory: Path, *, background: bool) -> IdleGapPages:
    wanted = Submission(command=("train",), user="ann", project=ProjectName("vision"), max_gpus=1)
    mobility = Elasticity.RIGID if background else Elasticity.ELASTIC
    wanted = replace(wanted, background=background, mobility=mobility)
    return IdleGapPages(Order(submission=wanted, argv=("train",), environment={}), memory)


def as_account(name: str, work: Callable[[], T]) -> T:
    """What ``work`` returns in a process of this account."""

    def become() -> T:
        account = pwd.getpwnam(name)
        os.setgroups([])
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
        return work()

    return in_fork(become)


@pytest.fixture
def memory() -> Iterator[Path]:
    """Shared memory of a machine, where everybody may make folders of their own."""
    folder = Path(tempfile.mkdtemp(prefix="fallow-test.", dir=MEMORY if MEMORY.is_dir() else "/tmp"))
    try:
        let_enter(folder, [1])
    except OSError as error:
        rmtree(folder)
        pytest.skip(f"{folder.parent} keeps no access lists: {error}")
    let_enter(folder, [])
    folder.chmod(0o1777)
    yield folder
    rmtree(folder)


def refusal(path: Path) -> str:
    """Why this process may not read the page; nothing where it may."""
    try:
        pages.attach_others(path).close()
    except pages.PageError as error:
        return str(error)
    return ""


def test_a_list_that_failed_once_is_set_at_the_next_word_and_a_later_page_gets_it(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = launcher(memory, background=False)
    folder = Path(host.launched(Lease(gpus=(GPU,)))[OWN_GAPS])
    readers = [(GPU, GUEST), (OTHER, GUEST)]

    def fails(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as full:
        full.setattr("service.launcher.idle_gaps.let_read", fails)
        host.allow((GPU,), readers)
    assert "Permission denied" in as_account(GUEST, lambda: refusal(folder / GPU))
    host.allow((GPU,), readers)
    assert as_account(GUEST, lambda: refusal(folder / GPU)) == ""
    host.hold((GPU, OTHER))
    host.allow((GPU, OTHER), readers)
    assert as_account(GUEST, lambda: refusal(folder / OTHER)) == ""
    host.close()


def test_who_was_let_in_reads_the_page_of_its_gpu_and_nobody_writes_it(memory: Path) -> None:
    host = launcher(memory, background=False)
    folder = Path(host.launched(Lease(gpus=(GPU, OTHER)))[OWN_GAPS])
    path = folder / GPU
    assert "Permission denied" in as_account(GUEST, lambda: refusal(path)), "nobody was let in yet"
    host.allow((GPU,), [(GPU, GUEST), (GPU, "no such account")])

    def reads_and_tries() -> tuple[bool, list[str]]:
        refused = []
        with pages.attach_others(path) as page:
            is_open = page.left_s() > 0
            for attempt in (
                lambda: page.allow(is_allowed=True),
                lambda: page.end_step(alone_s=1.0, recent_s=1.0, share=1.0),
                lambda: page.open_gap(50),
                lambda: os.open(path, os.O_RDWR),
                lambda: path.chmod(0o666),
                lambda: list(folder.iterdir()),
                path.unlink,
                lambda: pages.attach_others(folder / OTHER),
                lambda: pages.attach(path),
            ):
                try:
                    attempt()
                except (TypeError, OSError) as error:
                    refused.append(type(error).__name__)
        return is_open, refused

    with pages.attach(path) as page:
        page.end_step(alone_s=0.2, recent_s=0.21, share=1.0, gaps_s=0.1)
        page.open_gap(50)
        is_open, refused = as_account(GUEST, reads_and_tries)
        assert is_open, "what the foreground says is seen"
        assert refused == ["TypeError"] * 3 + ["PermissionError"] * 4 + ["PageError"] * 2
        assert page.steps == (1, 0) and page.slowdown == pytest.approx(1.05)
    assert "Permission denied" in as_account(STRANGER, lambda: refusal(path))
    host.allow((), [])
    assert "Permission denied" in as_account(GUEST, lambda: refusal(path)), "it has left"
    host.close()


def test_what_a_guest_does_is_counted_on_a_page_of_its_own(memory: Path) -> None:
    host = launcher(memory, background=False)
    path = Path(host.launched(Lease(gpus=(GPU,)))[OWN_GAPS]) / GPU
    host.allow((GPU,), [(GPU, GUEST)])

    def computes() -> tuple[int, float | None, int, int]:
        guest = launcher(memory, background=True)
        for _ in range(2):  # it was sent away, and comes again
            told = guest.launched(Lease(gpus=(GPU,), page=str(path)))
            assert told[OTHERS_GAPS] == str(path)
            with pages.attach(Path(told[COUNTS])) as counts:
                counts.end_background_step(0.5)
                counts.end_background_step(0.5)
        mode = Path(told[COUNTS]).stat().st_mode & 0o777
        (own,) = guest.counts((GPU,))
        guest.close()
        return own.steps, own.work_s, mode, Path(told[COUNTS]).exists()

    assert as_account(GUEST, computes) == (2, 0.5, 0o600, False)
    with pages.attach(path) as page:
        assert page.steps == (0, 0) and page.worked_s == 0, "nothing of it stands on the foreground's page"
    host.close()


def test_a_folder_that_another_could_have_made_up_is_none_of_idle_gaps(memory: Path) -> None:
    made_up = memory / "fallow.0.1.abcd"
    wide = memory / f"fallow.{pwd.getpwnam(GUEST).pw_uid}.2.abcd"
    for folder, mode in ((made_up, 0o755), (wide, 0o777)):
        folder.mkdir()
        os.chown(folder, pwd.getpwnam(GUEST).pw_uid, -1)
        folder.chmod(mode)
        pages.create(folder / "page").close()
        with pytest.raises(pages.PageError, match="no folder of idle gaps"):
            pages.attach_others(folder / "page")


class Line:
    """A service that says these rows, and then nothing until it is closed."""

    def __init__(self, *rows: Row) -> None:
        self._rows = list(rows)
        self._over = threading.Event()

    def directives(self, job: JobId, *, after: int, nonce: str) -> "Line":
        return self

    def __iter__(self) -> "Line":
        return self

    def __next__(self) -> Row:
        if not self._rows:
            self._over.wait(10)
            raise StopIteration
        row: Row = json.loads(json.dumps(self._rows.pop(0)))
        return row

    def close(self) -> None:
        self._over.set()


def test_a_launcher_hears_whom_to_let_in_and_what_makes_no_sense_lets_in_nobody() -> None:
    told = OpenGaps(gpus=(GPU, OTHER), readers=((GPU, GUEST),))
    odd: Row = {"idle_gaps": {"open": [GPU], "readers": [[GPU], "x", {"a": 1}, None]}}
    line = Line(gaps_row(told), gaps_row(replace(told, readers=())), odd)
    link = Link(lambda: line, JobId("fallow:1"))  # type: ignore[arg-type, return-value]
    link.open()
    heard: list[object] = []
    while len(heard) < 3:
        assert select.select([link], [], [], 10)[0], heard
        heard += link.words()
    link.close()
    assert heard == [
        Opened(gpus=(GPU, OTHER), readers=((GPU, GUEST),)),
        Opened(gpus=(GPU, OTHER)),
        Opened(gpus=(GPU,)),
    ]
