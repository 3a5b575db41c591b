"""squeue's answers, version by version, and a stand-in squeue on the PATH."""

import sys
from pathlib import Path

import pytest

from collector.inventory.hostlist import MOST_HOSTS, expand
from collector.inventory.slurm import RIGHTS_MS, SlurmSource
from collector.inventory.slurm_rights import hidden_jobs
from collector.inventory.squeue import NotSqueue, claims
from collector.model import ClaimSource, JobKind, NodeClaim, Reading, Unavailable
from tests.collector.inventory.squeue_writer import SHAPES, Job, document, printing, stand_in


def where(found: tuple[NodeClaim, ...]) -> list[tuple[str, int | None]]:
    return [(claim.node, claim.index) for claim in found]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_holds_the_gpus_that_its_gres_names(shape: str) -> None:
    found = claims(document([Job(id=812, gres=("gpu:a100:3(IDX:0-1,5)",))], shape))
    assert where(found) == [("gpu1", 0), ("gpu1", 1), ("gpu1", 5)]
    holder = found[0].holder
    assert (holder.job, holder.user, holder.project, holder.name) == ("slurm:812", "ann", "vision", "train")
    assert holder.kind is JobKind.BATCH
    assert {(claim.source, claim.share) for claim in found} == {(ClaimSource.SLURM, 1.0)}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_node_has_its_own_entry(shape: str) -> None:
    job = Job(
        id=9,
        nodes="gpu[01-02],big1",
        node_names=("gpu01", "gpu02", "big1"),
        gres=("gpu:1(IDX:3)", "gpu:1(IDX:0)", "gpu:h100:2(IDX:6-7)"),
    )
    assert where(claims(document([job], shape))) == [("gpu01", 3), ("gpu02", 0), ("big1", 6), ("big1", 7)]


@pytest.mark.parametrize("shape", SHAPES)
def test_nodes_are_expanded_where_resources_are_not_shown(shape: str) -> None:
    job = Job(id=9, nodes="gpu[01-02]", node_names=(), gres=("gpu:1(IDX:3)", "gpu:1(IDX:0)"))
    assert where(claims(document([job], shape))) == [("gpu01", 3), ("gpu02", 0)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_task_of_an_array_is_a_job_of_its_own(shape: str) -> None:
    (claim,) = claims(document([Job(id=6, array=(2, 0), gres=("gpu:1(IDX:2)",))], shape))
    assert (claim.holder.job, claim.holder.name) == ("slurm:6", "train [2_0]")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_name_moves_no_cursor_and_rings_no_bell(shape: str) -> None:
    (claim,) = claims(document([Job(id=6, name="fit\x1b]0;mine\x07\n2", gres=("gpu:1(IDX:2)",))], shape))
    assert claim.holder.name == "fit ]0;mine  2"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_that_is_no_array_is_not_called_one(shape: str) -> None:
    assert claims(document([Job(id=6)], shape))[0].holder.name == "train"
    assert claims(document([Job(id=6, array=(0, 0))], shape))[0].holder.name == "train"


@pytest.mark.parametrize(
    ("state", "holds"),
    [("RUNNING", True), ("COMPLETING", True), ("SUSPENDED", True), ("PENDING", False), ("COMPLETED", False)],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_holds_gpus_from_its_start_to_its_clean_up(shape: str, state: str, holds: bool) -> None:
    assert bool(claims(document([Job(id=1, state=state)], shape))) is holds


@pytest.mark.parametrize(
    ("detail", "indices"),
    [
        ("gpu:2(IDX:0,5)", [0, 5]),
        ("gpu:a100:4(IDX:0-3)", [0, 1, 2, 3]),
        ("gpu:a100:1(IDX:0),gpu:v100:2(IDX:4-5)", [0, 4, 5]),
        ("gpu:a100_3g.20gb:2(IDX:1,3)", [1, 3]),
        ("gpu:3090:2(IDX:1,3)", [1, 3]),
        ("gpu:3090:2", [None, None]),
        ("mygpu:2(IDX:1,3)", []),
        ("nic:1(IDX:0),gpu:1(IDX:2),craynetwork:4", [2]),
        ("gpu(S:0-1)", []),
        ("gpu:a100:2(S:0-1)", [None, None]),
        ("gpu:2", [None, None]),
        ("gpu:2(IDX:3)", [3, None]),
        ("gpu:0(IDX:N/A)", []),
        ("gpu:0(IDX:)", []),
        ("", []),
        ("nic:1(IDX:0)", []),
        ("gpu:1(IDX:0-999999999)", list(range(4097))),
    ],
)
def test_gres_details_of_every_kind(detail: str, indices: list[int | None]) -> None:
    found = claims(document([Job(id=1, gres=(detail,))], "v41"))
    assert [claim.index for claim in found] == indices


def test_gpus_that_are_nowhere_named_are_claimed_without_an_index() -> None:
    job = Job(id=1, gres=(), nodes="gpu[1-2]", node_names=("gpu1", "gpu2"), tres="cpu=8,gres/gpu=4,node=2")
    assert where(claims(document([job], "v41"))) == [("gpu1", None)] * 2 + [("gpu2", None)] * 2


def test_a_job_without_gpus_claims_none() -> None:
    assert claims(document([Job(id=1, gres=(), tres="cpu=8,mem=4G")], "v41")) == ()


def test_shards_share_their_gpu_by_what_each_was_given() -> None:
    jobs = [Job(id=1, gres=("shard:3(IDX:3)",)), Job(id=2, gres=("shard:a100:1(IDX:3)",))]
    found = claims(document(jobs, "v38"))
    assert [(claim.index, claim.share) for claim in found] == [(3, 0.75), (3, 0.25)]


def test_somebody_at_salloc_is_interactive() -> None:
    assert claims(document([Job(id=1, batch=False)], "v41"))[0].holder.kind is JobKind.INTERACTIVE


def test_a_user_without_a_name_is_known_by_number() -> None:
    assert claims(document([Job(id=1, user="", uid=5012)], "v39"))[0].holder.user == "uid-5012"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("a\x1b[2Jb", "a [2Jb"),
        ("half \ud83d", "half  "),
        ("two\nlines", "two lines"),
        ("x" * 5000, "x" * 255 + "…"),
    ],
)
def test_a_job_s_name_is_one_printable_line(name: str, kept: str) -> None:
    (claim,) = claims(document([Job(id=1, gres=("gpu:1(IDX:0)",), name=name)], "v41"))
    assert claim.holder.name == kept


@pytest.mark.parametrize("text", [[], {}, {"jobs": 3}, {"jobs": [7]}, None, "jobs"])
def test_anything_else_is_not_squeue_s(text: object) -> None:
    with pytest.raises(NotSqueue):
        claims(text)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", ()),
        ("gpu1", ("gpu1",)),
        ("gpu[1-3]", ("gpu1", "gpu2", "gpu3")),
        ("gpu[008-010]", ("gpu008", "gpu009", "gpu010")),
        ("gpu[1,3-4],login", ("gpu1", "gpu3", "gpu4", "login")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("a-b[01,10]-ib", ("a-b01-ib", "a-b10-ib")),
    ],
)
def test_host_lists_are_expanded_in_order(text: str, hosts: tuple[str, ...]) -> None:
    assert expand(text) == hosts


def test_a_mistyped_host_list_is_bounded() -> None:
    assert len(expand("gpu[0-99999999]")) == MOST_HOSTS


@pytest.mark.parametrize("shape", SHAPES)
def test_squeue_on_the_path_is_asked_for_everybody_s_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    printing(tmp_path, [Job(id=812)], shape)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    outcome = SlurmSource().read(77)
    assert isinstance(outcome, Reading)
    assert (outcome.source, outcome.at_ms) == ("slurm", 77)
    assert where(outcome.claims or ()) == [("gpu1", 0), ("gpu1", 1)]
    called = (tmp_path / "called").read_text()
    assert "--json" in called
    assert "--all" in called
    assert "RUNNING" in called


def test_a_job_named_in_another_encoding_costs_nobody_their_claims(tmp_path: Path) -> None:
    program = printing(tmp_path, [Job(id=812, name="Gruesse"), Job(id=813)], "v41")
    answer = tmp_path / "answer.json"
    answer.write_bytes(answer.read_bytes().replace(b"Gruesse", "Grüße".encode("latin-1")))
    outcome = SlurmSource([str(program)]).read(1)
    assert isinstance(outcome, Reading), outcome
    assert [claim.holder.name for claim in outcome.claims or ()] == ["Gr\ufffd\ufffde"] * 2 + ["train"] * 2


def test_no_jobs_is_an_answer(tmp_path: Path) -> None:
    outcome = SlurmSource([str(printing(tmp_path, [], "v41"))]).read(1)
    assert isinstance(outcome, Reading)
    assert outcome.claims == ()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", "Unable to contact"),
        ("echo 'JOBID PARTITION NAME'", "did not print jobs as JSON"),
        ("echo '{\"jobs\": 1}'", "no list of jobs"),
        ("exit 3", "ended with 3: no message"),
    ],
)
def test_a_failing_squeue_is_unavailable_with_its_reason(tmp_path: Path, body: str, reason: str) -> None:
    outcome = SlurmSource([str(stand_in(tmp_path, body))]).read(1)
    assert isinstance(outcome, Unavailable)
    assert reason in outcome.reason


def test_an_absent_squeue_is_unavailable_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = SlurmSource().read(1)
    assert isinstance(outcome, Unavailable)
    assert outcome.reason.startswith("squeue is not on the PATH")


def test_a_squeue_that_cannot_be_run_is_unavailable(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "")
    program.write_text("#!/no/such/interpreter\n")
    outcome = SlurmSource([str(program)]).read(1)
    assert isinstance(outcome, Unavailable)
    assert "could not be run" in outcome.reason


def test_a_silent_squeue_is_given_up(tmp_path: Path) -> None:
    program = stand_in(tmp_path, f'exec "{sys.executable}" -c "import signal; signal.pause()"')
    outcome = SlurmSource([str(program)], timeout_s=0.3).read(1)
    assert isinstance(outcome, Unavailable)
    assert "no answer in 0.3 s" in outcome.reason


def test_an_answer_that_names_errors_is_none(shared: Path, tmp_path: Path) -> None:
    """Slurm 22.05 with its controller away: exit code 0, an empty list, and an entry under errors."""
    fixture = shared / "slurm" / "fixtures" / "squeue_22.05_controller_dead_rc0.json"
    if not fixture.exists():
        pytest.skip(f"{fixture} is not among the reference data")
    outcome = SlurmSource([str(stand_in(tmp_path, f"cat {fixture}"))], hidden=lambda: None).read(1)
    assert isinstance(outcome, Unavailable)
    assert "Failed while looking for jobs" in outcome.reason and "is slurmctld up" in outcome.reason


def test_a_list_without_other_people_s_jobs_is_no_answer(tmp_path: Path) -> None:
    asked: list[int] = []

    def hidden() -> str:
        asked.append(1)
        return "Slurm hides other people's jobs from this account"

    source = SlurmSource([str(printing(tmp_path, [Job(id=812)], "v41"))], hidden=hidden)
    for at_ms in (1, 2, RIGHTS_MS + 2):
        outcome = source.read(at_ms)
        assert isinstance(outcome, Unavailable) and "hides other people's jobs" in outcome.reason
    assert len(asked) == 2, "asked again after a while, not at each look"


CONFIG = """\
Configuration data as of 2026-11-25T15:00:00
PrivateData             = {private}
SlurmUser               = slurm(64030)
SLURM_VERSION           = 22.05.8
"""


@pytest.mark.parametrize(
    ("private", "uid", "level", "is_hidden"),
    [
        ("none", 1000, None, False),
        ("accounts,usage", 1000, None, False),
        ("jobs", 0, None, False),
        ("jobs", 64030, None, False),
        ("accounts,jobs", 1000, "None\n", True),
        ("jobs", 1000, None, True),
        ("all", 1000, "", True),
        ("jobs", 1000, "Operator\n", False),
        ("jobs", 1000, "Administrator\n", False),
    ],
)
def test_who_sees_all_jobs_is_asked_of_slurm(
    private: str, uid: int, level: str | None, is_hidden: bool
) -> None:
    def run(command: tuple[str, ...]) -> str | None:
        return CONFIG.format(private=private) if command[0] == "scontrol" else level

    assert (hidden_jobs(run, uid) is not None) is is_hidden


def test_a_configuration_that_cannot_be_read_says_nothing() -> None:
    assert hidden_jobs(lambda _: None, 1000) is None
