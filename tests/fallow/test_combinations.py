"""Whatever of torch a training uses, three uneven workers learn what one plain torch loop learns."""

import multiprocessing
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from tests.fallow import combinations  # noqa: E402
from tests.fallow.combinations import BITWISE, CASES  # noqa: E402
from tests.fallow.devices import NAME  # noqa: E402

ROOT = Path(__file__).parents[2]
WORLD = 3 if NAME == "cpu" else 2  # each worker trains every case: a third one costs what the others do
TOLERANCE = 1e-12
several = pytest.mark.slow if NAME == "cpu" else pytest.mark.long
"""On another device several workers take 20 s more; resizes and kills have several there in every run."""


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the workers under torchrun learned, in all trainings."""
    out = tmp_path_factory.mktemp("combinations") / "learned"
    if NAME != "cpu":
        return _forked(out)
    launched = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *(f"--nproc-per-node={WORLD}", "-m", "tests.fallow.combinations"),
        ],
        cwd=ROOT,
        env={**os.environ, "OUT": str(out), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert launched.returncode == 0, launched.stderr[-3000:]
    return [torch.load(f"{out}.{rank}", weights_only=False) for rank in range(WORLD)]


def _forked(out: Path) -> list[dict[str, Any]]:
    """The same without torchrun, which costs 12 s of processor time: forks of what has read torch already."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "tests.fallow.combinations"])
    variables = {"WORLD_SIZE": str(WORLD), "LOCAL_WORLD_SIZE": str(WORLD), "OUT": str(out)}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        context.Process(
            target=combinations.as_rank, args=({**variables, "RANK": str(n), "LOCAL_RANK": str(n)},)
        )
        for n in range(WORLD)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(250)
    assert [rank.exitcode for rank in ranks] == [0] * WORLD
    return [torch.load(f"{out}.{rank}", weights_only=False) for rank in range(WORLD)]


def each_case() -> list[Any]:
    why = f"no AMP on the device {NAME}: trainings with a scaler are not tried there"
    left = set(CASES) - set(combinations.tried())
    return [pytest.param(name, marks=[pytest.mark.skip(reason=why)] * (name in left)) for name in CASES]


def assert_same(learned: dict[str, Any], reference: dict[str, Any], case: combinations.Case) -> None:
    for name, value in reference["parameters"].items():
        torch.testing.assert_close(learned["parameters"][name], value, rtol=0, atol=TOLERANCE, msg=name)
    torch.testing.assert_close(learned["average"], reference["average"], rtol=0, atol=TOLERANCE)
    for step, loss in reference["losses"].items():
        if step not in case.infinite_steps:
            assert learned["losses"][step] == pytest.approx(loss, rel=0, abs=TOLERANCE), step
    for step, norm in reference["norms"].items():
        if step not in case.infinite_steps:
            assert learned["norms"][step] == pytest.approx(norm, rel=0, abs=TOLERANCE), step
    assert learned["skipped"] == reference["skipped"]
    assert learned["scale"] == reference["scale"]
    assert sorted(learned["losses"]) == sorted(reference["losses"])


@pytest.mark.parametrize("name", each_case())
def test_alone_it_learns_what_a_plain_loop_over_whole_batches_learns(name: str) -> None:
    case = CASES[name]
    assert_same(
        combinations.elastic(case, fallow.connect(NAME, environment={})), combinations.plain(case), case
    )


@several
@pytest.mark.parametrize("name", each_case())
def test_three_workers_under_torchrun_learn_what_a_plain_loop_learns(
    name: str, learned: list[dict[str, Any]]
) -> None:
    reference = combinations.plain(CASES[name])
    for of_rank in learned:
        assert_same(of_rank["plain"][name], reference, CASES[name])


@several
@pytest.mark.parametrize("name", BITWISE)
def test_three_workers_learn_the_same_bits_as_one_when_asked(
    name: str, learned: list[dict[str, Any]]
) -> None:
    alone = combinations.elastic(CASES[name], fallow.connect(NAME, environment={}), deterministic=True)
    for of_rank in learned:
        mine = of_rank["deterministic"][name]
        assert mine["losses"] == alone["losses"]
        for key, value in alone["parameters"].items():
            assert torch.equal(mine["parameters"][key], value), key


@several
def test_the_shares_of_a_step_sum_to_the_global_batch(learned: list[dict[str, Any]]) -> None:
    for name in combinations.tried():
        sizes = [of_rank["plain"][name]["sizes"] for of_rank in learned]
        totals = [sum(of_step) for of_step in zip(*sizes, strict=True)]
        whole = [len(batch) for batch in combinations.global_batches(CASES[name], 331)]
        assert totals == whole, name


@several
@pytest.mark.skipif(combinations.STEPS < 15, reason=f"on {NAME} too few steps to know a worker's speed")
def test_a_slower_worker_is_given_less_once_its_speed_is_known(learned: list[dict[str, Any]]) -> None:
    first, *_, slowest = [of_rank["plain"]["balanced-by-speed"]["sizes"] for of_rank in learned]
    assert first[0] == slowest[0] == 16
    assert first[14] > 1.5 * slowest[14]  # one sample takes the last rank five times as long
