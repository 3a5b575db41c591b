"""Where a background job is sent, by what the foreground's launcher says of its page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.actions import Start, StartBackground
from advisor.engines.launched import LocalEngine
from advisor.jobs.gpu_sharing import Terms
from advisor.jobs.job_store import Register
from advisor.jobs.model import Elasticity, IdleGapCounts, JobState, Sharing, StartCommand
from advisor.outcomes import Stale
from collector.model import JobId
from tests.advisor.jobs.job_store_world import GPUS, HandClock, acknowledge, opened, submission, word

ANN, BEN = 1000, 1001
OWN = f"/dev/shm/fallow.{ANN}.77.abcd/{GPUS[0]}"
GUESTS = f"/dev/shm/fallow.{BEN}.99.efgh/{GPUS[0]}"


@pytest.fixture
def register(tmp_path: Path) -> Iterator[Register]:
    store, made = opened(tmp_path, HandClock())
    yield made
    store.close()


def engine(register: Register) -> LocalEngine:
    return LocalEngine(register, HandClock(), lambda *_: Terms(sharing=Sharing.WHOLE))


def host(register: Register, page: str) -> JobId:
    """Ann's training, which runs and whose launcher tells of this page."""
    job = register.submit(submission(user="ann", uid=ANN, mobility=Elasticity.ELASTIC, max_gpus=1))[0].id
    engine(register).give(Start(job=job, gpus=GPUS[:1]), 1)
    acknowledge(register, register.entry(job), gpus=GPUS[:1])
    gaps = (IdleGapCounts(gpu=GPUS[0], page=page, steps=100),)
    register.report(job, word(JobState.RUNNING, 1, gpus=GPUS[:1], idle_gaps=gaps))
    return job


def sent(register: Register, beside: JobId, user: str, uid: int | None) -> object:
    """What comes of a start of this account's background job there: its command, or a refusal."""
    guest = register.submit(
        submission(
            user=user, uid=uid, background=True, mobility=Elasticity.RIGID, max_gpus=1, preemptible=False
        )
    )[0].id
    result = engine(register).give(StartBackground(job=guest, beside=beside, gpus=GPUS[:1]), 2)
    return result if isinstance(result, Stale) else register.entry(guest).directive


def test_a_guest_is_sent_to_the_page_of_the_foregrounds_own_launcher(register: Register) -> None:
    command = sent(register, host(register, OWN), "ben", BEN)
    assert isinstance(command, StartCommand) and command.page == OWN


def test_a_page_in_the_guests_own_folder_is_not_believed_of_another(register: Register) -> None:
    front = host(register, GUESTS)
    refused = sent(register, front, "ben", BEN)
    assert isinstance(refused, Stale) and "a page that is not its own" in refused.found


def test_an_owners_own_jobs_share_a_folder_of_one_account(register: Register) -> None:
    command = sent(register, host(register, OWN), "ann", ANN)
    assert isinstance(command, StartCommand) and command.page == OWN
