"""The same facts in every version's words come out as the same samples."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.dcgm.readout import Readout, read_out
from collector.dcgm.text import MalformedText, parse
from collector.dcgm.vocabulary import Dialect as Spoken
from collector.dcgm.vocabulary import is_known, measure_of, utilization_scale, without_blanks
from collector.model import GpuSample
from tests.collector.dcgm.dcgm_writer import (
    ANCIENT,
    BASE_UNITS,
    CLASSIC,
    DIALECTS,
    MIB,
    RENAMED,
    Board,
    Dialect,
    Facts,
    block,
    exposition,
    labels_of,
)

RATIOS = st.integers(0, 1_000_000).map(lambda n: n / 1_000_000)
PERCENTS = st.integers(0, 100).map(lambda n: n / 100)
MEMORY = st.integers(0, 80_000).map(lambda n: n * MIB)


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    """Facts that every dialect can say: whole percents, MiB and joules."""
    return Facts(
        gpu_utilization_ratio=draw(PERCENTS),
        memory_controller_ratio=draw(PERCENTS),
        encoder_ratio=draw(PERCENTS),
        decoder_ratio=draw(PERCENTS),
        graphics_active_ratio=draw(RATIOS),
        sm_active_ratio=draw(st.none() | RATIOS),
        sm_occupancy_ratio=draw(st.none() | RATIOS),
        tensor_active_ratio=draw(RATIOS),
        dram_active_ratio=draw(RATIOS),
        memory_used_bytes=draw(MEMORY),
        memory_free_bytes=draw(MEMORY),
        memory_reserved_bytes=draw(MEMORY),
        power_mw=draw(st.integers(0, 1_200_000)),
        energy_mj=draw(st.integers(0, 10**11).map(lambda n: n * 1000)),
        temperature_c=draw(st.integers(1, 110)),
        sm_clock_mhz=draw(st.integers(100, 3000)),
        memory_clock_mhz=draw(st.integers(100, 10_000)),
        xid=draw(st.sampled_from((0, 13, 31, 79))),
    )


def read(boards: list[Board], dialect: Dialect, *, typed: bool = True) -> Readout:
    rows = parse(exposition(boards, dialect, typed=typed), is_known)
    return read_out(rows, fallback_node="nowhere", at_ms=1_000_000, width_ms=30_000)


def rounded(readout: Readout) -> Readout:
    """Wire fractions have six digits; a percent and its ratio differ in the last bit."""
    return replace(readout, samples=tuple(_round(sample) for sample in readout.samples))


def _round(sample: GpuSample) -> GpuSample:
    ratios = {
        name: round(value, 9)
        for name in GpuSample.__slots__
        if name.endswith("_ratio") and (value := getattr(sample, name)) is not None
    }
    return replace(sample, **ratios)


@settings(max_examples=60, deadline=None)
@given(facts=st.lists(facts(), min_size=1, max_size=4), typed=st.booleans())
def test_same_facts_give_the_same_samples_in_every_dialect(facts: list[Facts], typed: bool) -> None:
    boards = [Board(uuid=f"GPU-{i}", index=i, facts=fact) for i, fact in enumerate(facts)]
    told = [rounded(read(boards, dialect, typed=typed)) for dialect in DIALECTS]
    assert all(readout == told[0] for readout in told)
    for board, sample in zip(boards, told[0].samples, strict=True):
        spoken = {name for name in Facts.__slots__ if hasattr(sample, name)}
        assert {name: getattr(sample, name) for name in spoken} == pytest.approx(
            {name: getattr(board.facts, name) for name in spoken}
        )
        parts = (
            board.facts.memory_used_bytes,
            board.facts.memory_free_bytes,
            board.facts.memory_reserved_bytes,
        )
        assert sample.memory_total_bytes == sum(part or 0 for part in parts)


@settings(max_examples=40, deadline=None)
@given(facts=facts(), order=st.randoms(use_true_random=False))
def test_order_of_lines_does_not_matter(facts: Facts, order: object) -> None:
    boards = [
        Board(uuid="GPU-a", instance=str(i), profile="1g.10gb", facts=replace(facts, power_mw=100_000 + i))
        for i in range(3)
    ]
    lines = exposition(boards, CLASSIC, typed=False).splitlines()
    order.shuffle(lines)  # type: ignore[attr-defined]
    shuffled = read_out(
        parse("\n".join(lines), is_known), fallback_node="nowhere", at_ms=1_000_000, width_ms=30_000
    )
    straight = read(boards, CLASSIC)
    assert {gpu.uuid: gpu for gpu in shuffled.gpus} == {gpu.uuid: gpu for gpu in straight.gpus}
    assert {s.uuid: s for s in shuffled.samples} == {s.uuid: s for s in straight.samples}


def test_every_rename_of_dcgm_4_6_means_what_it_meant_before(shared: Path) -> None:
    with (shared / "dcgm" / "field_renames_dcgm_4_6.csv").open() as file:
        pairs = [(row["old"], row["new"]) for row in csv.DictReader(file)]
    used = [(old, new) for old, new in pairs if is_known(old)]
    assert len(used) >= 10
    for old, new in used:
        before, after = measure_of(old), measure_of(new)
        assert before is not None and after is not None, new
        assert (after.quantity, after.scope) == (before.quantity, before.scope), new
        undecided = new == "DCGM_FI_DEV_GPU_UTIL_RATIO"
        assert after.unit.factor == (None if undecided else before.unit.factor), new


def test_every_default_counter_is_read_or_left_out_on_purpose(shared: Path) -> None:
    left_out = {
        "DCGM_FI_DEV_MEMORY_TEMP",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "DCGM_FI_DRIVER_VERSION",
    }
    lines = (shared / "dcgm" / "default-counters.csv").read_text().splitlines()
    names = {line.split(",")[0].strip() for line in lines if line.startswith("DCGM_")}
    assert {name for name in names if not is_known(name)} == left_out


@pytest.mark.parametrize(
    ("values", "dialects", "scale"),
    [
        ((0.0, 37.0), {Spoken.CLASSIC}, 0.01),
        ((0.0, 100.0), set(), 0.01),
        ((1.0, 0.0), {Spoken.BASE_UNITS}, 1.0),
        ((1.0, 0.4), set(), 1.0),
        ((1.0,), {Spoken.CLASSIC}, 0.01),
        ((1.0,), {Spoken.BASE_UNITS, Spoken.CLASSIC}, 1.0),
        ((0.0, 0.0), set(), 1.0),
        ((1.0, 0.0), set(), None),
        ((float(0x7FFFFFF0), 1.0), {Spoken.BASE_UNITS}, 1.0),
        ((), set(), 1.0),
    ],
)
def test_scale_of_the_renamed_utilization_is_told_by_its_company(
    values: tuple[float, ...], dialects: set[Spoken], scale: float | None
) -> None:
    assert utilization_scale(values, frozenset(dialects)) == scale


def test_utilization_of_unknown_scale_is_unknown_and_says_so() -> None:
    labels = block(labels_of(Board(uuid="GPU-a"), RENAMED))
    rows = parse(f"DCGM_FI_DEV_GPU_UTIL_RATIO{labels} 1\n", is_known)
    (sample,) = read_out(rows, fallback_node="n", at_ms=1, width_ms=1).samples
    assert sample.utilization_ratio is None and sample.gpu_utilization_ratio is None
    assert sample.flags == ("utilization-scale-unknown",)


@pytest.mark.parametrize(
    "blank",
    [
        *(f"{0x7FFFFFF0 + code}" for code in range(4)),
        *(f"{0x7FFFFFFFFFFFFFF0 + code}" for code in range(4)),
        *(f"{(1 << 47) + code}" for code in range(4)),
        "1.4073748835532800e+14",
        "9.223372036854776e+18",
        "NaN",
        "+Inf",
        "-1",
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_blanks_are_unmeasured_not_numbers(dialect: Dialect, blank: str) -> None:
    labels = block(labels_of(Board(uuid="GPU-a"), dialect))
    text = "".join(f"{word.name}{labels} {blank}\n" for word in dialect.words.values())
    (sample,) = read_out(parse(text, is_known), fallback_node="n", at_ms=1, width_ms=1).samples
    assert sample == GpuSample(uuid=sample.uuid, at_ms=1, width_ms=1)


@pytest.mark.parametrize(
    "tail", [' # {trace_id="a}"} 0.5', " 1790000000", " 1790000000 # {} 0.5 1790000000", "\r"]
)
def test_what_openmetrics_adds_to_a_line_is_not_taken_for_its_value(tail: str) -> None:
    labels = '{UUID="GPU-a",modelName="a # {b} c"}'
    text = f"DCGM_FI_DEV_GPU_UTIL{labels} 50{tail}\nDCGM_FI_DEV_GPU_TEMP{labels} 40\n# EOF\n"
    out = read_out(parse(text, is_known), fallback_node="n", at_ms=1, width_ms=1)
    assert [(s.gpu_utilization_ratio, s.temperature_c) for s in out.samples] == [(0.5, 40)]
    assert out.gpus[0].model == "a # {b} c"


@pytest.mark.parametrize(
    "line", ['{UUID="GPU-a"} 50 {b="c"} 0.5', '{UUID="GPU-a"} 0 } 50', '{UUID="GPU-a"}} 5']
)
def test_line_with_two_ends_of_its_labels_is_refused_not_guessed(line: str) -> None:
    with pytest.raises(MalformedText, match="unreadable labels"):
        parse(f"DCGM_FI_DEV_GPU_UTIL{line}\n", is_known)


def test_large_energy_counters_are_not_taken_for_blanks() -> None:
    assert without_blanks(2147483631.0) == 2147483631.0
    assert without_blanks(455497156000.0) == 455497156000.0


@pytest.mark.parametrize("typed", [True, False])
def test_sm_active_above_one_is_clamped_and_flagged(typed: bool) -> None:
    board = Board(uuid="GPU-a", facts=Facts(sm_active_ratio=1.29, graphics_active_ratio=0.5))
    (sample,) = read([board], CLASSIC, typed=typed).samples
    assert (sample.sm_active_ratio, sample.utilization_ratio) == (1.0, 1.0)
    assert sample.flags == ("sm_active-above-1",)


def test_new_and_old_name_of_one_measure_in_a_scrape_count_once() -> None:
    board = Board(uuid="GPU-a", facts=Facts(gpu_utilization_ratio=0.4, power_mw=300_000))
    both = exposition([board], CLASSIC) + exposition([board], BASE_UNITS)
    (sample,) = read_out(parse(both, is_known), fallback_node="n", at_ms=1, width_ms=1).samples
    assert (sample.gpu_utilization_ratio, sample.power_mw) == (0.4, 300_000)


def test_exporters_of_1_x_are_keyed_by_their_lower_case_uuid() -> None:
    (gpu,) = read([Board(uuid="GPU-a", facts=Facts(temperature_c=40))], ANCIENT).gpus
    assert (gpu.uuid, gpu.node) == ("GPU-a", "node-1")


def test_the_suffix_of_opentelemetry_and_openmetrics_is_read() -> None:
    page = (
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="n1"} 77\n'
        'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total{gpu="0",UUID="GPU-a",Hostname="n1"} 5.5e+10\n'
        'DCGM_FI_DEV_ECC_SBE_VOL_TOTAL_total{gpu="0",UUID="GPU-a",Hostname="n1"} 3\n'
    )
    (sample,) = read_out(parse(page, is_known), fallback_node="n", at_ms=1, width_ms=1).samples
    assert (sample.energy_mj, sample.ecc_corrected) == (55_000_000_000, 3)


@pytest.mark.parametrize(
    ("jpeg", "flow"),
    [
        ("DCGM_FI_PROF_NVJPG{}_ACTIVE", "DCGM_FI_PROF_NVOFA{}_ACTIVE"),
        ("DCGM_FI_PROF_NVJPG_UTIL_{}_RATIO", "DCGM_FI_PROF_NVOFA_UTIL_{}_RATIO"),
    ],
)
def test_of_several_jpeg_and_optical_flow_engines_the_busiest_counts(jpeg: str, flow: str) -> None:
    board = 'gpu="0",UUID="GPU-a",Hostname="n1"'
    lines = [f"{jpeg.format(engine)}{{{board}}} {value}" for engine, value in enumerate((0.1, 0.75, 0))]
    lines += [f"{flow.format(engine)}{{{board}}} {value}" for engine, value in enumerate((0, 0.25))]
    rows = parse("\n".join(lines) + "\n", is_known)
    (sample,) = read_out(rows, fallback_node="n1", at_ms=60_000, width_ms=10_000).samples
    assert (sample.jpeg_ratio, sample.ofa_ratio) == (0.75, 0.25)


# NVIDIA GB300: 1.4 kW and 288 GB, the most of 2026. A page whose FB_USED is in bytes says 20,971,520 GiB.
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_what_no_gpu_has_is_not_measured_and_its_other_values_are(dialect: Dialect) -> None:
    odd = Facts(gpu_utilization_ratio=0.5, memory_used_bytes=20_971_520 << 30, power_mw=250_000_000)
    big = Facts(gpu_utilization_ratio=0.5, memory_used_bytes=288 << 30, power_mw=1_400_000)
    first, second = read(
        [Board(uuid="GPU-a", facts=odd), Board(uuid="GPU-b", index=1, facts=big)], dialect
    ).samples
    assert (first.gpu_utilization_ratio, first.memory_used_bytes, first.power_mw) == (0.5, None, None)
    assert (second.memory_used_bytes, second.power_mw) == (288 << 30, 1_400_000)
