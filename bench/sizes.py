"""How much room a store takes, by level: bytes that a GPU adds to each in a day.

From the simulated cluster at a ten-second tick: each level's rows alone in a compact DuckDB file, and the
sealed days as they lie. Bytes, so a run means the same on every machine. No target: they are for planning.

    python bench/sizes.py [--json] [--quick]
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import duckdb

from collector.sources.simulated.cluster import SimulatedCluster
from collector.store.database import Limits, open_store

DAY_MS = 86_400_000
TICK_MS = 10_000
TO_MS = 1_790_000_000_000 // DAY_MS * DAY_MS
GPUS_PER_NODE = 8
LEVELS = {"minutes": "rollup_1m", "hours": "rollup_1h"}


def main() -> None:
    """Measure, and print a table or one object."""
    parser = argparse.ArgumentParser(description="How much room a store takes")
    parser.add_argument("--json", action="store_true", help="one object of figures")
    parser.add_argument("--quick", action="store_true", help="one node instead of four")
    arguments = parser.parse_args()
    nodes, days = (1, 2) if arguments.quick else (4, 3)
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), nodes, days)
    gpu_days = nodes * GPUS_PER_NODE * days
    figures = {f"{level}_bytes_per_gpu_day": round(size / gpu_days) for level, size in found.items()}
    if arguments.json:
        print(
            json.dumps(
                {name: {"value": n, "target": None, "ok": True, "beside": {}} for name, n in figures.items()}
            )
        )
        return
    print(f"{nodes * GPUS_PER_NODE} simulated GPUs, {days} days, a tick of {TICK_MS // 1000} s")
    for name, size in figures.items():
        print(f"{name:<32} {size:>10,}")


def measure(folder: Path, nodes: int, days: int) -> dict[str, int]:
    """Bytes of each level after so many days."""
    cluster = SimulatedCluster(seed=0, nodes=nodes, gpus_per_node=GPUS_PER_NODE)
    found: dict[str, int] = {}
    file = folder / "fallow.duckdb"
    with open_store(file, Limits(threads=1)) as store:
        for day in cluster.history(TO_MS - days * DAY_MS, TO_MS, TICK_MS):
            store.write_history(day)
    found["hot_samples"] = alone(file, "samples", folder)
    with open_store(file, Limits(threads=1)) as store:
        found["sealed_samples"] = sum(day.bytes for day in store.seal_days(TO_MS))
    return found | {level: alone(file, table, folder) for level, table in LEVELS.items()}


def alone(file: Path, table: str, folder: Path) -> int:
    """Bytes of a table's rows in a file of their own, less what an empty one takes."""
    sizes: list[int] = []
    for where in ("WHERE false", ""):
        copy = folder / f"{table}-{len(sizes)}.duckdb"
        with duckdb.connect(str(copy)) as connection:
            connection.execute(f"ATTACH '{file}' AS store (READ_ONLY)")
            connection.execute(f"CREATE TABLE rows AS SELECT * FROM store.{table} {where}")
            connection.execute("CHECKPOINT")
        sizes.append(copy.stat().st_size)
    return sizes[1] - sizes[0]


if __name__ == "__main__":
    main()
