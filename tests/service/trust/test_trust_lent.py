"""A uid that a person was lent is that person's, but to MPS, and is no operator for it: real accounts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.jobs.gpu_sharing import Mps
from advisor.jobs.model import Sharing, StartCommand
from advisor.state.model import ClusterState, ProjectName
from collector.model import JobId
from service.config.file import parse
from service.control.lease_terms import LeaseTerms
from service.control.membership import Membership, hold_strangers, rules_of
from tests.advisor.jobs.job_store_world import GPUS, HandClock, opened, submission
from tests.service.trust.accounts import ANN, EVE, NAMES, as_account, needs_root

pytestmark = needs_root
ANNS = 200_007
"""Of the range that this machine lends to ann; no account has it."""
DAEMON = Mps(pipe_directory="/run/mps", why="")
MEMBERS = '[membership]\nrule = "members"\n[quotas.vision]\nmembers = ["eve"]\n'


@pytest.fixture(autouse=True)
def lent(there: Path) -> Iterator[None]:
    (there / "etc" / "subuid").write_text("ann:200000:65536\neve:300000:65536\n")
    yield


def shared(there: Path, first: int, then: int, *, beside: bool = True) -> tuple[str, str]:
    """How a job of one uid shares a GPU under MPS with a job of another, or is served ``beside`` it."""

    def call() -> tuple[str, str]:
        store, register = opened(there, HandClock())
        with store:
            jobs = []
            for number, uid in enumerate((first, then)):
                name = "ann" if uid == ANNS else NAMES[uid]
                asked = submission(user=name, uid=uid, share=0.5, nonce=str(number), max_gpus=1)
                jobs.append(register.submit(asked)[0])
            order = StartCommand(number=1, gpus=GPUS[:1], share=0.5, sharing=Sharing.MPS)
            register.give(jobs[0].id, order)
            granting = LeaseTerms(register, lambda: replace(DAEMON))
            granting.seen(ClusterState(as_of_ms=1))
            found = granting.agree(jobs[1], GPUS[:1] if beside else GPUS[1:2], 0.5)
        return found.sharing.value, found.sentences[0]

    return as_account(0, call, there)


def test_mps_is_shared_by_the_jobs_of_one_uid(there: Path) -> None:
    assert shared(there, ANN, ANN)[0] == Sharing.MPS.value


@pytest.mark.parametrize(("first", "then", "other"), [(ANN, ANNS, "ann"), (ANNS, ANN, f"uid-{ANNS}")])
@pytest.mark.parametrize("beside", [True, False])
def test_mps_tells_a_lent_uid_from_its_person(
    there: Path, first: int, then: int, other: str, beside: bool
) -> None:
    """The control daemon serves one uid at a time, whoever that is (NVIDIA MPS, "Multi-user")."""
    sharing, why = shared(there, first, then, beside=beside)
    assert sharing == Sharing.TIME_SLICED.value
    assert f"shares with {other}," in why or f"serves {other}," in why


def held(there: Path, operators: tuple[str, ...]) -> dict[int, bool]:
    """Of waiting jobs of these uids in eve's project, which a start of the service holds."""

    def call() -> dict[int, bool]:
        store, register = opened(there, HandClock())
        with store:
            for uid in (0, ANN, ANNS, EVE, 300_009):
                name = {ANNS: "ann", 300_009: "eve"}.get(uid) or NAMES[uid]
                asked = submission(user=name, uid=uid, project=ProjectName("vision"), nonce=str(uid))
                register.submit(asked)
            config = parse(MEMBERS, origin="fallow.toml").config
            hold_strangers(register, Membership(rules_of(config)), frozenset(operators))
            found = {each.submission.uid or 0: each.held_by_user for each in register.entries().values()}
            said = register.entry(JobId("fallow:2")).message
        assert said.startswith("ann is not a member of vision" if found[ANN] else "")
        return found

    return as_account(0, call, there)


def test_jobs_of_strangers_are_held_when_a_service_starts(there: Path) -> None:
    assert held(there, ()) == {0: False, ANN: True, ANNS: True, EVE: False, 300_009: False}


def test_an_operator_s_own_jobs_wait_on_and_those_of_lent_uids_are_held(there: Path) -> None:
    assert held(there, ("ann",)) == {0: False, ANN: False, ANNS: True, EVE: False, 300_009: False}
