"""MIG through dcgm-exporter: the board's values once, the instances' values theirs, shares that add up."""

import pytest

from collector.dcgm.readout import Readout, read_out
from collector.dcgm.text import parse
from collector.dcgm.vocabulary import is_known
from collector.model import Basis
from tests.collector.dcgm.dcgm_writer import DIALECTS, Board, Dialect, Facts, exposition

BOARD_FACTS = {"power_mw": 200_000, "energy_mj": 5_000_000, "temperature_c": 50, "sm_clock_mhz": 1410}


def partition(*profiles: str, model: str = "NVIDIA A100-SXM4-40GB") -> list[Board]:
    return [
        Board(
            uuid="GPU-p",
            model=model,
            instance=str(7 + i),
            profile=profile,
            facts=Facts(graphics_active_ratio=0.5, memory_used_bytes=1 << 30, **BOARD_FACTS),  # type: ignore[arg-type]
        )
        for i, profile in enumerate(profiles)
    ]


def read(boards: list[Board], dialect: Dialect) -> Readout:
    return read_out(parse(exposition(boards, dialect), is_known), fallback_node="n", at_ms=1, width_ms=1)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_boards_values_go_to_the_parent_once_and_are_never_summed(dialect: Dialect) -> None:
    readout = read(partition("1g.5gb", "1g.5gb", "2g.10gb"), dialect)
    samples = {sample.uuid: sample for sample in readout.samples}
    parent = samples["GPU-p"]  # type: ignore[index]
    assert {name: getattr(parent, name) for name in BOARD_FACTS} == BOARD_FACTS
    assert parent.rung is Basis.UNKNOWN and parent.memory_used_bytes is None
    for instance in (7, 8, 9):
        sample = samples[f"MIG-GPU-p/{instance}"]  # type: ignore[index]
        assert all(getattr(sample, name) is None for name in BOARD_FACTS)
        assert (sample.rung, sample.utilization_ratio) == (Basis.GRAPHICS_ACTIVE, 0.5)
        assert sample.memory_used_bytes == 1 << 30


@pytest.mark.parametrize(
    ("profiles", "model", "shares", "left"),
    [
        (("1g.5gb",) * 7, "NVIDIA A100-SXM4-40GB", [1 / 7] * 7, 0.0),
        (("3g.40gb", "3g.40gb"), "NVIDIA H100 80GB HBM3", [3 / 7] * 2, 1 / 7),
        (("7g.80gb",), "NVIDIA H100 80GB HBM3", [1.0], 0.0),
        (("1g.10gb+me",), "NVIDIA H100 80GB HBM3", [1 / 7], 6 / 7),
        (("1c.3g.40gb",), "NVIDIA H100 80GB HBM3", [3 / 7], 4 / 7),
        (("4g.24gb",), "NVIDIA A30", [1.0], 0.0),
        (("1g.6gb", "2g.12gb"), "NVIDIA A30", [0.25, 0.5], 0.25),
        (("what",), "NVIDIA A100-SXM4-40GB", [1 / 7], 6 / 7),
    ],
)
def test_shares_follow_the_profile_and_the_parent_keeps_the_rest(
    profiles: tuple[str, ...], model: str, shares: list[float], left: float
) -> None:
    readout = read(partition(*profiles, model=model), DIALECTS[0])
    instances = [gpu.share_of_device for gpu in readout.gpus if gpu.parent_uuid]
    (parent,) = (gpu for gpu in readout.gpus if gpu.parent_uuid is None)
    assert instances == pytest.approx(shares)
    assert parent.share_of_device == pytest.approx(left)


def test_whole_board_rows_beside_instances_do_not_count_the_work_twice() -> None:
    whole = Board(uuid="GPU-p", facts=Facts(graphics_active_ratio=0.9, power_mw=210_000))
    readout = read([whole, *partition("3g.20gb")], DIALECTS[0])
    samples = {sample.uuid: sample for sample in readout.samples}
    parent = samples["GPU-p"]  # type: ignore[index]
    assert parent.utilization_ratio is None and parent.power_mw == 210_000
    assert samples["MIG-GPU-p/7"].utilization_ratio == 0.5  # type: ignore[index]


def test_an_instance_keeps_its_name_when_others_come_and_go() -> None:
    before = read(partition("1g.5gb", "2g.10gb"), DIALECTS[0])
    after = read(partition("1g.5gb", "2g.10gb")[1:], DIALECTS[0])
    assert {gpu.uuid for gpu in after.gpus} == {gpu.uuid for gpu in before.gpus} - {"MIG-GPU-p/7"}
