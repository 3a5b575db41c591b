"""Exporters and peers that name too much: it is bounded, and never cut without a word."""

from collections.abc import Callable

import pytest

from collector.dcgm.crowd import CROWDED, DAY_MS, MOST_OF_ONE_GPU, Named
from collector.dcgm.fetch import MOST_GPUS, Limits
from collector.dcgm.scrape import ScrapedSource
from collector.dcgm.source import DcgmSettings, dcgm_source
from collector.dcgm.text import CUT, LONGEST_VALUE, MalformedText
from collector.model import (
    GpuUuid,
    Unavailable,
)
from collector.reading import Reading
from collector.sources.peer import PeerSettings, peer_source
from service.config.model import CollectConfig
from tests.collector.dcgm.loopback import serving, text

NOW_MS = 1_800_000_000_000


def dcgm_page(gpus: int, first: int = 0, **labels: str) -> str:
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    return "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{UUID="GPU-{number}",gpu="0",Hostname="n{number // 8}"{more}}} 50\n'
        for number in range(first, first + gpus)
    )


def peer_page(gpus: int, first: int = 0) -> str:
    lines = ["fallow_allocations_known 1"]
    for number in range(first, first + gpus):
        labels = f'{{uuid="GPU-{number}",node="n{number // 8}",index="0"}}'
        lines += [
            f"fallow_gpu_info{labels} 1",
            f"fallow_gpu_sample_timestamp_seconds{labels} {NOW_MS / 1e3}",
            f"fallow_gpu_sample_width_seconds{labels} 10",
            f"fallow_gpu_utilization_ratio{labels} 0.5",
        ]
    return "\n".join(lines) + "\n"


def dcgm(*urls: str, gpus: int = MOST_GPUS) -> ScrapedSource:
    return dcgm_source(DcgmSettings(urls=urls, limits=Limits.of_gpus(gpus, 30.0)))


def peer(*urls: str, gpus: int = MOST_GPUS) -> ScrapedSource:
    return peer_source(PeerSettings(urls=urls, limits=Limits.of_gpus(gpus, 30.0), environment={}))


def read(source: ScrapedSource, now_ms: int = NOW_MS) -> Reading | Unavailable:
    try:
        return source.read(now_ms)
    finally:
        source.close()


Kind = tuple[Callable[..., ScrapedSource], Callable[..., str]]
KINDS: tuple[Kind, ...] = ((dcgm, dcgm_page), (peer, peer_page))
each_kind = pytest.mark.parametrize(("source", "page"), KINDS, ids=("exporter", "peer"))


@each_kind
def test_a_page_that_names_more_gpus_than_one_may_is_not_believed(
    source: Callable[..., ScrapedSource], page: Callable[..., str]
) -> None:
    with serving(lambda *_: text(page(33))) as crowd, serving(lambda *_: text(page(8, first=500))) as honest:
        reading = read(source(crowd, honest, gpus=32))
        alone = read(source(crowd, gpus=33))
    assert isinstance(reading, Reading) and len(reading.gpus) == 8
    (gap,) = reading.gaps
    assert "it has named 33 GPUs within a day, and one address may name 32" in gap.reason
    assert "collect.gpus_per_address" in gap.reason and crowd in gap.reason
    assert isinstance(alone, Reading) and len(alone.gpus) == 33, "and with the setting it is"


@each_kind
def test_a_page_that_invents_new_gpus_each_time_ends_at_the_same_bound(
    source: Callable[..., ScrapedSource], page: Callable[..., str]
) -> None:
    shown = [page(8)]
    seen: set[str] = set()
    with serving(lambda *_: text(shown[0])) as url:
        made = source(url, gpus=32)
        for turn in range(20):
            shown[0] = page(8, first=8 * turn)
            reading = made.read(NOW_MS + turn * 60_000)
            if isinstance(reading, Reading):
                seen |= {gpu.uuid for gpu in reading.gpus}
        shown[0] = page(8)
        believed = made.read(NOW_MS + 30 * 60_000)
        shown[0] = page(8, first=900)
        following_day = made.read(NOW_MS + DAY_MS)
        made.close()
    assert len(seen) == 32
    assert isinstance(believed, Reading) and len(believed.gpus) == 8, "those that are known are read on"
    assert isinstance(following_day, Reading) and len(following_day.gpus) == 8


def test_a_clock_that_is_set_back_begins_the_day_anew() -> None:
    one, other = (frozenset(GpuUuid(f"{name}{each}") for each in range(4)) for name in "ab")
    named = Named().and_also(one, NOW_MS, most=4)
    with pytest.raises(MalformedText, match="8 GPUs"):
        named.and_also(other, NOW_MS + 1, most=4)
    assert named.and_also(other, NOW_MS - 1, most=4).uuids == other


def test_a_gpu_that_is_called_longer_than_any_driver_calls_one_is_not_believed() -> None:
    for source, page in KINDS:
        with serving(lambda *_, page=page: text(page(1).replace("GPU-0", "GPU-" + "0" * 300))) as url:
            found = read(source(url))
        assert isinstance(found, Unavailable) and "more than 200 characters" in found.reason


def test_ten_thousand_gpus_behind_many_addresses_are_all_read() -> None:
    pages = {f"/{number}": dcgm_page(625, first=625 * number) for number in range(16)}
    with serving(lambda path, _: text(pages[path])) as url:
        found = read(dcgm(*(url + path for path in pages)))
    assert isinstance(found, Reading) and found.gaps == () and len(found.gpus) == len(found.samples) == 10_000


@pytest.mark.slow
def test_a_peer_that_speaks_for_a_thousand_machines_is_read_where_it_may() -> None:
    limits = Limits.of_gpus(8_000, 5.0)
    assert limits.bytes_ > Limits().bytes_ and Limits.of_gpus(16, 5.0).bytes_ == Limits().bytes_
    with serving(lambda *_: text(peer_page(8_000))) as url:
        found = read(peer(url, gpus=8_000))
    assert isinstance(found, Reading) and len(found.samples) == 8_000


def test_the_setting_is_the_bound_where_nothing_is_set() -> None:
    assert CollectConfig().gpus_per_address == MOST_GPUS


def test_holders_beyond_the_bound_of_one_gpu_are_left_out_and_the_sample_says_so() -> None:
    crowd = "".join(dcgm_page(1, hpc_job=str(number)) for number in range(1, 3001))
    with serving(lambda *_: text(crowd + dcgm_page(1, first=1, hpc_job="9"))) as url:
        found = read(dcgm(url))
    assert isinstance(found, Reading) and found.allocations is not None and found.gaps == ()
    held = [each for each in found.allocations if each.uuid == "GPU-0"]
    assert len(held) == MOST_OF_ONE_GPU and sum(each.share for each in held) == pytest.approx(1)
    flags = {sample.uuid: sample.flags for sample in found.samples}
    assert CROWDED in flags[GpuUuid("GPU-0")] and CROWDED not in flags[GpuUuid("GPU-1")]
    assert [each.holder.job for each in found.allocations if each.uuid == "GPU-1"] == ["slurm:9"]


def test_what_a_peer_says_of_one_gpu_beyond_the_bound_is_left_out_and_the_sample_says_so() -> None:
    at = NOW_MS / 1e3
    families = {
        "fallow_gpu_allocation_ratio": lambda n: f'job="j{n}",user="u",source="slurm"}} 1',
        "fallow_gpu_last_event_timestamp_seconds": lambda n: f'kind="k{n}",detail="d"}} {at}',
        "fallow_gpu_flag": lambda n: f'flag="f{n}"}} 1',
        "fallow_gpu_withheld": lambda n: f'state="down",reason="r{n}"}} 1',
    }
    for name, more in families.items():
        crowd = "".join(f'{name}{{uuid="GPU-0",{more(number)}\n' for number in range(3000))
        own = f'{name}{{uuid="GPU-1",{more(1)}\n'
        with serving(lambda *_, crowd=crowd, own=own: text(peer_page(2) + crowd + own)) as url:
            found = read(peer(url))
        assert isinstance(found, Reading)
        flags = {sample.uuid: sample.flags for sample in found.samples}
        assert CROWDED in flags[GpuUuid("GPU-0")] and CROWDED not in flags[GpuUuid("GPU-1")], name
        of_one = (*(found.allocations or ()), *found.events, *found.withheld)
        assert sum(each.uuid == "GPU-0" for each in of_one) <= MOST_OF_ONE_GPU
        assert len(flags[GpuUuid("GPU-0")]) <= MOST_OF_ONE_GPU + 1
        assert name == "fallow_gpu_flag" or sum(each.uuid == "GPU-1" for each in of_one) == 1


def test_a_label_that_is_too_long_is_cut_and_shows_it() -> None:
    with serving(lambda *_: text(dcgm_page(1, modelName="m" * 16_000))) as url:
        found = read(dcgm(url))
    assert isinstance(found, Reading)
    assert found.gpus[0].model == "m" * LONGEST_VALUE + CUT


def test_sources_of_a_peer_that_cannot_be_read_are_named_briefly() -> None:
    blind = "".join(f'fallow_source_up{{source="s{number}"}} 0\n' for number in range(3000))
    with serving(lambda *_: text(peer_page(1) + blind)) as url:
        found = read(peer(url))
    assert isinstance(found, Reading) and len(found.gaps[0].reason) < 1000
