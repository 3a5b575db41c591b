"""What a machine shows of NVIDIA GPUs, what is then measured, and that nothing is ever invented unasked."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from collector.model import Unavailable
from collector.reading import Reading
from collector.store.origin import Origin
from service.config.model import CollectConfig, Config
from service.sources import gpu_presence
from service.sources.gpu_presence import FaultNamed, GpuPresence, PciGpu, look_for_gpus
from service.sources.making import SourceRefused, chosen_specs, refuse_no_gpus
from service.sources.simulated_choice import simulated_instead
from service.sources.specs import BadSource, NvmlSpec, parse_specs
from tests.collector.store.store_parts import T0, sample, tick
from tests.stores import open_store

NONE = GpuPresence(has_driver=False)
DRIVEN = GpuPresence(has_driver=True)
ORPHAN = GpuPresence(has_driver=False, without_driver=(PciGpu(address="0000:41:00.0", bound_to="nouveau"),))


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A PCI bus of this test's, on a machine without a driver."""
    monkeypatch.setattr(gpu_presence, "DRIVER_SIGNS", (tmp_path / "no-driver",))

    def add(address: str, vendor: str, kind: str, driver: str | None = None) -> Path:
        device = tmp_path / "devices" / address
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
        if driver is not None:
            (tmp_path / "drivers" / driver).mkdir(parents=True, exist_ok=True)
            (device / "driver").symlink_to(tmp_path / "drivers" / driver)
        return tmp_path / "devices"

    return add


@pytest.mark.parametrize(
    ("vendor", "kind", "driver", "found"),
    [
        ("0x10de", "0x030200", None, [PciGpu(address="0000:41:00.0", bound_to=None)]),
        ("0x10de", "0x030000", "nouveau", [PciGpu(address="0000:41:00.0", bound_to="nouveau")]),
        ("0x10de", "0x030200", "vfio-pci", []),
        ("0x10de", "0x040300", None, []),
        ("0x1002", "0x030000", "amdgpu", []),
    ],
    ids=["no driver", "another driver", "given to a virtual machine", "the board's sound", "another maker's"],
)
def test_gpus_on_the_bus_are_those_of_nvidia_that_nobody_drives(
    bus: Callable[..., Path], vendor: str, kind: str, driver: str | None, found: list[PciGpu]
) -> None:
    assert list(look_for_gpus(bus("0000:41:00.0", vendor, kind, driver)).without_driver) == found


def test_a_machine_without_a_bus_has_no_gpu(bus: Callable[..., Path], tmp_path: Path) -> None:
    assert look_for_gpus(tmp_path / "nothing") == NONE


def test_the_fault_says_which_gpu_what_drives_it_and_what_to_do() -> None:
    assert ORPHAN.fault is not None
    for part in ("0000:41:00.0", "no NVIDIA driver is loaded", "nouveau", "modprobe nvidia", "dmesg"):
        assert part in ORPHAN.fault
    assert (NONE.fault, DRIVEN.fault) == (None, None)


@pytest.mark.parametrize("presence", [NONE, DRIVEN, ORPHAN], ids=["none", "driven", "orphan"])
def test_where_nobody_chose_a_source_the_machine_s_own_gpus_are_read_and_none_is_invented(
    presence: GpuPresence,
) -> None:
    specs, remarks = chosen_specs(Config(), presence)
    assert specs == (NvmlSpec(),)
    assert [each for each in remarks if "modprobe" in each] == (list(remarks) if presence is ORPHAN else [])
    assert len(remarks) == (presence is ORPHAN)


def test_a_machine_with_nothing_to_measure_is_told_so_unless_its_store_knew_gpus() -> None:
    with pytest.raises(SourceRefused, match=r"--source dcgm=URL.*--simulated"):
        refuse_no_gpus(Config(), None, NONE)
    refuse_no_gpus(Config(), Origin.REAL, NONE)
    refuse_no_gpus(Config(), None, ORPHAN)
    refuse_no_gpus(Config(), None, DRIVEN)
    refuse_no_gpus(watching("dcgm=http://gpu-a:9400"), None, NONE)


def test_simulated_gpus_stand_beside_no_others() -> None:
    with pytest.raises(BadSource, match="shown alone"):
        parse_specs(("simulated", "nvml"))


class Source:
    """One that cannot be read, or can."""

    name = "nvml"

    def __init__(self, *, reads: bool) -> None:
        self.reads = reads

    def read(self, now_ms: int) -> Reading | Unavailable:
        if self.reads:
            return Reading(source=self.name, at_ms=now_ms)
        return Unavailable(source=self.name, at_ms=now_ms, reason=f"no library; next try in {now_ms} s")

    def close(self) -> None:
        """Nothing is open."""


def test_gpus_without_a_driver_are_a_fault_in_words_that_stay_the_same() -> None:
    source = FaultNamed(Source(reads=False), lambda: ORPHAN)
    reasons = {outcome.reason for at in (1, 2) if isinstance(outcome := source.read(at), Unavailable)}
    assert reasons == {ORPHAN.fault}
    other = FaultNamed(Source(reads=False), lambda: DRIVEN).read(7)
    assert isinstance(other, Unavailable) and other.reason == "no library; next try in 7 s"
    assert isinstance(FaultNamed(Source(reads=True), lambda: ORPHAN).read(1), Reading)


def test_up_shows_the_simulated_cluster_in_a_folder_of_its_own_and_only_without_gpus(tmp_path: Path) -> None:
    data = tmp_path / "fallow"
    assert simulated_instead(Config(), data, NONE) == tmp_path / "fallow-simulated"
    assert simulated_instead(Config(), data, DRIVEN) is None
    assert simulated_instead(Config(), data, ORPHAN) is None
    assert simulated_instead(watching("fallow=http://gpu-a:9475"), data, NONE) is None


@pytest.mark.parametrize("source", ["nvml", "simulated"])
def test_up_goes_on_with_the_store_that_is_there(tmp_path: Path, source: str) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        store.write_tick(tick(T0, [sample(0, T0)], source=source))
    assert simulated_instead(Config(), tmp_path, NONE) == (tmp_path if source == "simulated" else None)


def watching(source: str) -> Config:
    return replace(Config(), collect=replace(CollectConfig(), sources=(source,)))
