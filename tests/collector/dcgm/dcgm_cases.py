"""The scraped sources as cases of the contract suite: a real HTTP server that can be broken and mended."""

from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

from collector.dcgm.fetch import Limits
from collector.dcgm.scrape import ScrapedSource
from collector.dcgm.source import DcgmSettings, dcgm_source
from collector.metrics_endpoint import exposition as fallow_exposition
from collector.model import Basis, GpuSample, GpuUuid, NodeName
from collector.model import Gpu as GpuValue
from collector.snapshot import Snapshot
from collector.sources.peer import PeerSettings, peer_source
from tests.collector.dcgm.dcgm_writer import BASE_UNITS, CLASSIC, Board, Facts, exposition
from tests.collector.dcgm.loopback import Answer, serving, text

BUSY = Facts(
    gpu_utilization_ratio=0.9, sm_active_ratio=1.2, graphics_active_ratio=0.7, temperature_c=60, xid=0
)
PART = Facts(graphics_active_ratio=0.4, memory_used_bytes=1 << 30, power_mw=200_000, temperature_c=40)


@dataclass(slots=True)
class World:
    """An exporter's answers; time makes new values."""

    now_ms: int = 0
    broken: bool = False

    def breaks(self) -> None:
        self.broken = True

    def mends(self) -> None:
        self.broken = False

    def passes(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def exporter(self, path: str, _: object) -> Answer:
        if self.broken:
            return text('DCGM_FI_DEV_GPU_TEMP{UUID="a\n')
        watts = 100_000 + self.now_ms // 1000 % 1000
        if "new" in path:
            boards = [Board(uuid="GPU-b", node="n2", facts=replace(BUSY, power_mw=watts))]
            return text(exposition(boards, BASE_UNITS))
        whole = Board(
            uuid="GPU-a", facts=replace(BUSY, power_mw=watts), holders={"pod": "p", "namespace": "ns"}
        )
        parts = [
            Board(
                uuid="GPU-m", index=1, instance=str(i), profile="3g.40gb", facts=replace(PART, power_mw=watts)
            )
            for i in (1, 2)
        ]
        return text(exposition([whole, *parts], CLASSIC))

    def fallow(self, *_: object) -> Answer:
        if self.broken:
            return Answer(status=500)
        gpu = GpuValue(uuid=GpuUuid("GPU-a"), node=NodeName("n1"), index=0)
        sample = GpuSample(
            uuid=gpu.uuid,
            at_ms=self.now_ms - 1500,
            width_ms=10_000,
            rung=Basis.GPU_UTILIZATION,
            utilization_ratio=0.5,
            gpu_utilization_ratio=0.5,
        )
        snapshot = Snapshot(at_ms=self.now_ms, gpus=(gpu,), samples=(sample,))
        return text(fallow_exposition(snapshot).decode())


def dcgm(request: pytest.FixtureRequest) -> tuple[ScrapedSource, World]:
    """Two dcgm-exporters of different versions, one with a partitioned board."""
    world, url = _serving(request, "exporter")
    settings = DcgmSettings(urls=(f"{url}/old", f"{url}/new"), limits=Limits(timeout_s=2))
    return dcgm_source(settings), world


def peer(request: pytest.FixtureRequest) -> tuple[ScrapedSource, World]:
    """Another Fallow."""
    world, url = _serving(request, "fallow")
    return peer_source(PeerSettings(urls=(url,), limits=Limits(timeout_s=2), environment={})), world


def _serving(request: pytest.FixtureRequest, kind: str) -> tuple[World, str]:
    world, stack = World(), ExitStack()
    request.addfinalizer(stack.close)
    return world, stack.enter_context(serving(getattr(world, kind)))
