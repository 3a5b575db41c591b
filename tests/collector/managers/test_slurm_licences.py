"""Which licence a waiting job lacks, how many there are and how many are in use, as a real Slurm says it.

What Slurm prints is of 22.05.8 with ``Licenses=matlab:3,ansys:2``; the numbers expected are counted by hand.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from collector.inventory.slurm_programs import NoAnswer
from collector.managers.model import JobState, Limit, Look, WaitCause
from collector.managers.slurm.licences import Licence, asked_of, licences_of, limit_of
from collector.managers.slurm.limits_reader import LIMITS_MS, LimitsReader
from collector.managers.slurm.reader import SlurmManager
from service.summaries import waiting
from tests.collector.managers.test_slurm_limits import job
from tests.slurm_cluster import SlurmCluster, slurm_cluster

SHOWN = (
    "LicenseName=ansys Total=2 Used=0 Free=2 Reserved=1 Remote=no\n"
    "LicenseName=matlab Total=3 Used=2 Free=1 Reserved=0 Remote=no\n"
)
THERE = {"ansys": Licence(total=2, used=0, reserved=1), "matlab": Licence(total=3, used=2)}


def test_what_slurm_shows_of_licences_is_read() -> None:
    assert licences_of(SHOWN) == THERE
    assert licences_of("No licenses configured in Slurm.\n") == {}
    assert licences_of("LicenseName=odd Total=many Used=1\nLicenseName= Total=1 Used=1\n") == {}


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("matlab:2,ansys:1", {"matlab": 2, "ansys": 1}),
        ("matlab", {"matlab": 1}),
        ("matlab@flex:2", {"matlab@flex": 2}),
        ("matlab=2;ansys", {"matlab": 2, "ansys": 1}),
        ("matlab:1|ansys:1", None),
        ("matlab:lots", None),
        ("", None),
    ],
)
def test_what_a_job_asks_for(text: str, asked: dict[str, int] | None) -> None:
    assert asked_of(text) == asked


@pytest.mark.parametrize(
    ("asked", "most", "used", "name"),
    [
        ("matlab:2", 3, 2, "matlab"),  # two of three are in use, and it wants two
        ("ansys:1,matlab:2", 3, 2, "matlab"),  # of the other there are enough
        ("ansys:2", 1, 0, "ansys"),  # both are free, of which a reservation keeps one
        ("ansys:3", 2, 0, "ansys"),  # more than there are
    ],
)
def test_the_licence_of_which_there_are_too_few_is_the_one(
    asked: str, most: int, used: int, name: str
) -> None:
    assert limit_of(asked, THERE) == Limit(name=name, what=f"license:{name}", most=most, used=used)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (None, "could not be read"),
        ("matlab:1|ansys:1", "could not be read"),
        ("matlab:1", "none would be too few"),
        ("matlab:1,flex:1", "shows no licence flex"),
    ],
)
def test_where_it_is_not_known_which_that_is_said(asked: str | None, says: str) -> None:
    limit = limit_of(asked, THERE)
    assert limit.most is None and says in limit.unseen


def test_slurm_is_asked_for_licences_while_a_job_waits_for_one_and_once_a_minute() -> None:
    calls: list[str] = []
    broken: list[str] = []

    def ask(command: Sequence[str]) -> str:
        if broken:
            raise NoAnswer("slurmctld is away")
        calls.append(command[0])
        mark = command[-1].partition("JobID:")[2].partition(",")[0]
        return SHOWN if command[0] == "scontrol" else f"9{mark}matlab:2{mark}\n"

    reader, waits = LimitsReader(), job("Licenses")
    assert waits.cause is WaitCause.OTHER
    assert reader.told(ask, (job("Resources"),), "fake", 0)[0].limit is None and not calls
    (told,) = reader.told(ask, (waits,), "fake", 0)
    assert told.limit == Limit(name="matlab", what="license:matlab", most=3, used=2)
    reader.told(ask, (waits,), "fake", LIMITS_MS - 1)
    assert calls == ["scontrol", "squeue"]
    broken.append("")
    (told,) = reader.told(ask, (waits,), "fake", LIMITS_MS)
    assert (
        told.limit is not None and "slurmctld is away" in told.limit.unseen and told.state is JobState.PENDING
    )


@pytest.mark.slow
@pytest.mark.process
def test_a_real_slurm_says_which_licence_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def licensed(cluster: SlurmCluster, host: str, ports: tuple[int, int]) -> None:
        with cluster.conf.open("a") as conf:
            conf.write("Licenses=matlab:3,ansys:2\n")

    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as name,
        slurm_cluster(Path(name), nodes=1, gpus=2, accounting=licensed) as cluster,
    ):
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
        first = cluster.submit("--licenses=matlab:2")
        running = ("squeue", "--noheader", f"--jobs={first}", "--format=%T")
        cluster.until("its run", *running, says="RUNNING")
        number = cluster.submit("--licenses=ansys:1,matlab:2", "--gres=gpu:1")
        why = ("squeue", "--noheader", f"--jobs={number}", "--format=%r")
        cluster.until("its reason", *why, says="Licenses")
        look = SlurmManager(timeout_s=30.0).look(time.time_ns() // 1_000_000)
        assert isinstance(look, Look), look
        waits = next(each for each in look.jobs if each.key.id == number)
    assert waits.limit == Limit(name="matlab", what="license:matlab", most=3, used=2)
    row = {"reason": waits.reason, "limit_met": json.dumps(asdict(waits.limit))}
    blank = dict.fromkeys(("qos", "project", "partition", "reservation"), "")
    assert waiting.why_of(blank | row) == "a licence is not free: 3 of matlab at most, 2 in use"  # type: ignore[arg-type]
