"""What is laid side by side: rows of simulated clusters, and published measurements of real ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from collector.sources.simulated.cluster import SimulatedCluster
from collector.sources.simulated.labels import KINDS
from collector.sources.simulated.people import DAY_MS
from collector.sources.simulated.workload import slots_of

TO_MS = 1_795_000_200_000
STEP_MS = 300_000
TRAINING_GPUS = 4
GRID = (np.arange(1000) + 0.5) / 1000

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Simulated rows of several seeds, column by column; percent, watts."""

    sm: Floats
    util: Floats
    controller: Floats
    power_w: Floats
    memory: Floats
    kind: Ints
    training: npt.NDArray[np.bool_]
    ampere: npt.NDArray[np.bool_]

    def where(self, which: npt.NDArray[np.bool_]) -> "Rows":
        """The rows that are marked."""
        return Rows(**{name: getattr(self, name)[which] for name in self.__dataclass_fields__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """Published measurements: quantiles on GRID, or points."""

    acme: dict[tuple[str, str], Floats]
    miso: dict[str, Floats]
    alibaba_util: Floats


def simulate(seeds: int, days: int = 14) -> Rows:
    """All rows of ``seeds`` clusters over ``days``."""
    parts = [_rows_of(SimulatedCluster(seed=seed), days) for seed in range(seeds)]
    names = Rows.__dataclass_fields__
    return Rows(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def read_real(traces: Path) -> Real:
    """The published curves, as quantiles on GRID."""
    curves = _read(traces / "acme" / "utilization_cdf.csv.gz")
    acme: dict[tuple[str, str], Floats] = {}
    for cluster, metric in {*zip(curves["cluster"], curves["metric"], strict=True)}:
        mine = (curves["cluster"] == cluster) & (curves["metric"] == metric)
        order = np.lexsort((curves["value"][mine], curves["cdf_pct"][mine]))
        share, value = curves["cdf_pct"][mine][order] / 100.0, curves["value"][mine][order]
        acme[str(cluster), str(metric)] = np.interp(GRID, share, value)
    profiles = _read(traces / "miso" / "a100_single_job_profile.csv")
    jobs = profiles["model"] != "dummy"
    pods = _read(traces / "alibaba-genai-2026" / "pod_gpu_telemetry.csv.gz")["gpu_util_pct"]
    return Real(
        acme=acme,
        miso={name: profiles[name][jobs] for name in ("sm_util_pct", "mem_bw_util_pct", "power_w")},
        alibaba_util=pods[~np.isnan(pods)],
    )


def _rows_of(cluster: SimulatedCluster, days: int) -> Rows:
    from_ms = TO_MS - days * DAY_MS
    table = pa.concat_tables(h.samples for h in cluster.history(from_ms, TO_MS, STEP_MS)).combine_chunks()
    uuids = [str(gpu.uuid) for gpu in cluster.gpus]
    gpu = pc.index_in(table["uuid"], pa.array(uuids)).to_numpy().astype(np.int64)
    at_ms = table["at_ms"].to_numpy()
    total = np.array([g.memory_total_bytes for g in cluster.gpus])[gpu]
    ampere = np.array(["A100" in str(g.model) for g in cluster.gpus])
    percent = {
        name: 100.0 * table[f"{column}_ratio"].to_numpy().astype(np.float64)
        for name, column in (
            ("sm", "sm_active"),
            ("util", "gpu_utilization"),
            ("controller", "memory_controller"),
        )
    }
    return Rows(
        **percent,
        power_w=table["power_mw"].to_numpy() / 1000.0,
        memory=100.0 * table["memory_used_bytes"].to_numpy() / total,
        kind=_kinds(cluster, from_ms, gpu, at_ms),
        training=_given_to_trainings(cluster)[gpu],
        ampere=ampere[gpu],
    )


def _kinds(cluster: SimulatedCluster, from_ms: int, gpu: Ints, at_ms: Ints) -> Ints:
    """The label of each row; of two holders' labels the first."""
    order = {g.uuid: place for place, g in enumerate(cluster.gpus)}
    truth = cluster.truth(from_ms, TO_MS)
    starts = np.array([(order[t.uuid] << 42) + t.from_ms for t in truth])
    kinds = np.array([KINDS.index(t.kind) for t in truth])
    labels: Ints = kinds[np.searchsorted(starts, (gpu << 42) + at_ms - 1, side="right") - 1]
    return labels


def _given_to_trainings(cluster: SimulatedCluster) -> npt.NDArray[np.bool_]:
    flags = np.zeros((cluster.nodes, cluster.gpus_per_node), np.bool_)
    for node in range(cluster.nodes):
        for slot in slots_of(node, cluster.gpus_per_node):
            flags[node, list(slot.gpus)] = len(slot.gpus) >= TRAINING_GPUS
    return flags.ravel()


def _read(path: Path) -> dict[str, npt.NDArray[Any]]:
    table = pyarrow.csv.read_csv(path)
    return {name: table[name].to_numpy() for name in table.column_names}
