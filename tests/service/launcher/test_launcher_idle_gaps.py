"""Pages of idle gaps as a launcher makes them: whose they are, when they are open, what becomes of them."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.jobs.model import Elasticity, Submission
from advisor.state.model import ActionClass, ProjectName
from collector.model import GpuUuid
from fallow.idle_gaps import page as pages
from fallow.idle_gaps.page import PageError
from service.launcher.idle_gaps import OTHERS_GAPS, OWN_GAPS, IdleGapPages
from service.launcher.model import Lease
from service.launcher.order import Order

pytestmark = pytest.mark.quick

GPUS = (GpuUuid("GPU-a"), GpuUuid("MIG-GPU-b/1/0"))
WANTED = Submission(
    command=("train",), user="ann", project=ProjectName("vision"), mobility=Elasticity.ELASTIC, max_gpus=2
)


def made(tmp_path: Path, **changes: object) -> IdleGapPages:
    submission = replace(WANTED, **changes)  # type: ignore[arg-type]
    return IdleGapPages(Order(submission=submission, argv=("train",), environment={}), tmp_path)


def one_page(path: Path) -> pages.Page:
    page = pages.attach(path)
    page.end_step(alone_s=0.2, recent_s=0.21, share=1.0, gaps_s=0.1)
    page.open_gap(10.0)
    return page


def test_each_gpu_has_a_page_of_its_owners_alone_that_opens_when_the_service_says_so(tmp_path: Path) -> None:
    own = made(tmp_path)
    folder = Path(own.launched(Lease(gpus=GPUS[:1]))[OWN_GAPS])
    own.hold(GPUS)
    paths = [folder / "GPU-a", folder / "MIG-GPU-b_1_0"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and folder.stat().st_uid == os.geteuid()
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o600, 0o600]
    with one_page(paths[0]) as first, one_page(paths[1]) as second:
        assert first.left_s() == 0, "nobody may fill a gap that the service has not opened"
        own.allow(GPUS[:1])
        assert first.left_s() > 0 and second.left_s() == 0
        assert [each.gpu for each in own.counts(GPUS)] == list(GPUS)
        told = own.counts(GPUS[:1])[0]
        assert (told.steps, told.alone_s, told.gaps_s) == (
            1,
            0.2,
            0.1,
        ) and told.slowdown_ratio == pytest.approx(1.05)
        own.close()
        assert first.left_s() == 0 and not folder.exists()


def test_who_wants_nobody_or_cannot_tell_one_gpu_from_another_has_no_page(tmp_path: Path) -> None:
    no = frozenset({ActionClass.BACKGROUND})
    for each in (
        made(tmp_path, opted_out=no),
        made(tmp_path, mobility=Elasticity.RIGID),
        made(tmp_path / "not there"),
    ):
        assert each.launched(Lease(gpus=GPUS)) == {} and each.counts(GPUS) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_background_job_is_told_of_the_page_and_refuses_one_that_is_not_its_owners(tmp_path: Path) -> None:
    path, link, wide = tmp_path / "page", tmp_path / "link", tmp_path / "wide"
    pages.create(path).close()
    pages.create(wide).close()
    wide.chmod(0o622)
    link.symlink_to(path)
    guest = made(tmp_path, background=True, mobility=Elasticity.RIGID, max_gpus=1)
    for bad in (link, wide, tmp_path / "none"):
        with pytest.raises(PageError):
            guest.launched(Lease(gpus=GPUS[:1], page=str(bad)))
    if os.geteuid() == 0:
        os.chown(wide, 12345, 12345)
        wide.chmod(0o600)
        with pytest.raises(PageError):
            guest.launched(Lease(gpus=GPUS[:1], page=str(wide)))
    with pages.attach(path) as page:
        page.end_background_step(0.5)
        assert guest.launched(Lease(gpus=GPUS[:1], page=str(path))) == {OTHERS_GAPS: str(path)}
        assert guest.counts(GPUS)[0].steps == 0, "what others did there before is not its own"
        page.end_background_step(0.5)
        assert (guest.counts(GPUS)[0].steps, guest.counts(GPUS)[0].work_s) == (1, 0.5)
    guest.close()


def test_what_a_killed_launcher_left_goes_with_its_owners_next_one(tmp_path: Path) -> None:
    left = tmp_path / f"fallow.{os.geteuid()}.{2**22 + 1}.abcd"
    left.mkdir()
    others = tmp_path / f"fallow.{os.geteuid() + 1}.{2**22 + 1}.abcd"
    others.mkdir()
    own = made(tmp_path)
    own.launched(Lease(gpus=GPUS[:1]))
    assert not left.exists() and others.exists()
    own.close()
