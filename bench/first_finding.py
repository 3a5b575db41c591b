"""From a Prometheus with a month of 100 GPUs to the first true finding: ``python bench/first_finding.py``.

A real Prometheus (Debian's package) gets the history of so many GPUs, eight a node: of every ten, three
train, two compute every other hour, two are held by idle pods, one by an empty pod, two are free. Then
``fallow init`` runs as a newcomer types it, into an empty folder. The first true finding is there when it
prints who wasted most, with their hours. Printed beside: processor time, what a look alone takes, and how
long Prometheus itself needs to answer with all samples; below that nothing that reads them can be.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.collector.backfill.past import prometheus
from tests.conftest import program

NODE_GPUS = 8
MEMORY_MIB = {"idle": 39_000, "train": 60_000, "half": 40_000}
KINDS = ("train", "train", "train", "half", "half", "idle", "idle", "empty", "free", "free")
CHUNK = 86_400
PAGE_S = 1800 * 60
"""How much of a range is asked for at once in the comparison: 1,800 steps, far below Prometheus' 11,000."""
TARGET_S = 60


def labels(gpu: int) -> str:
    """The labels of one GPU as dcgm-exporter writes them."""
    kind, node = KINDS[gpu % len(KINDS)], f"gpu-{gpu // NODE_GPUS:03d}"
    own = f'gpu="{gpu % NODE_GPUS}",UUID="GPU-{gpu:08d}",modelName="NVIDIA A100-SXM4-80GB",Hostname="{node}"'
    pod = "" if kind == "free" else f',namespace="lab",pod="{kind}-{gpu}",container="main"'
    return f'{own}{pod},job="dcgm",instance="{node}:9400"'


def lines(gpus: int, times: Sequence[int]) -> Iterator[str]:
    """The history as OpenMetrics, one series after the other."""
    for gpu in range(gpus):
        kind, inside = KINDS[gpu % len(KINDS)], labels(gpu)
        busy = {"train": (95, 95), "half": (90, 0)}.get(kind, (0, 0))
        head = f"DCGM_FI_DEV_GPU_UTIL{{{inside}}}"
        yield "".join(f"{head} {busy[at // 3600 % 2]} {at}\n" for at in times)
        head = f"DCGM_FI_DEV_FB_USED{{{inside}}} {MEMORY_MIB.get(kind, 0)}"
        yield "".join(f"{head} {at}\n" for at in times)
    yield "# EOF\n"


def written(gpus: int, times: Sequence[int], folder: Path) -> Path:
    """Prometheus' data folder."""
    text, blocks = folder / "history.txt", folder / "data"
    with text.open("w") as file:
        file.writelines(lines(gpus, times))
    tool = program("promtool", "prometheus")
    # With blocks of two hours, its default, it would read the whole text for each of them.
    command = [tool, "tsdb", "create-blocks-from", "--max-block-duration=744h", "openmetrics"]
    subprocess.run([*command, str(text), str(blocks)], check=True, capture_output=True)
    text.unlink()
    return blocks


def read_all_s(url: str, times: Sequence[int], step_s: int) -> float:
    """How long Prometheus takes to answer with every sample, and nothing is made of them."""
    begun_s = time.monotonic()
    with httpx.Client(trust_env=False, timeout=300) as client:
        for name in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"):
            for start in range(times[0], times[-1], PAGE_S):
                span = {"start": start, "end": min(start + PAGE_S - step_s, times[-1]), "step": step_s}
                client.get(f"{url}/api/v1/query_range", params={"query": name, **span}).raise_for_status()
    return time.monotonic() - begun_s


def timed(words: Sequence[str]) -> tuple[str, float, float]:
    """A verb's output, its seconds, and those of the processor."""
    before, begun_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "service.cli", *words], capture_output=True, text=True, check=False
    )
    after, took_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begun_s
    assert done.returncode == 0, done.stdout + done.stderr
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, took_s, cpu_s


def main() -> None:
    """Write, measure, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=100)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--step", type=int, default=60, help="seconds between two scrapes")
    flags = parser.parse_args()
    end = int(time.time()) // 60 * 60
    times = range(end - flags.days * CHUNK, end + 1, flags.step)
    with tempfile.TemporaryDirectory(prefix="first-finding-") as folder:
        blocks = written(flags.gpus, times, Path(folder))
        load = os.getloadavg()[0]
        print(f"written: {flags.gpus} GPUs, {flags.days} d, {len(times):,} scrapes; load {load:.0f}")
        with prometheus(blocks) as url:
            bound_s = read_all_s(url, times, flags.step)
            words = ("init", "--prometheus", url, "--data", f"{folder}/fallow", "--since", f"{flags.days}d")
            _, look_s, _ = timed(words)
            told, took_s, cpu_s = timed((*words, "--yes"))
    names = re.findall(r"^pod:lab/(\S+)", told, flags=re.MULTILINE)
    hours = flags.days * 24
    assert names and all(each.startswith(("idle-", "empty-", "half-")) for each in names), told
    print(told[-1500:])
    print(f"the first finding after {took_s:.1f} s (target {TARGET_S}), {cpu_s:.1f} s of processor time")
    print(f"of these a look {look_s:.1f} s; Prometheus alone answers with all samples in {bound_s:.1f} s")
    print(f"each idle pod was written with {hours} h; load at the end {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
