"""What a background job gets from a foreground's idle gaps, and what that costs the foreground.

    python -m bench.harvest               # two models of a GPU, and two real trainings on one processor
    python -m bench.harvest --quick       # shorter
    python -m bench.harvest --only gate   # the first model alone, which no load of the machine changes

*Gate*: Fallow's own gate, page, announcer and guard on a model of a GPU and its hosts (``bench.gate_model``),
beside the gate as it was before it met a GPU. *Guard*: a foreground of 10 ms of work and 5 ms of waiting a
step, with jitter, and pieces of 0.5 ms.
Pieces are admitted by what is left of the gap and the guard's share, as ``fallow.idle_gaps`` does, beside a
guard that watches a moving average of the foreground's steps, as DeepPool does. *Real*: a training under
``Trainer`` whose data take 60 ms to come, and another one that calls ``fallow.listen()``, both on one
processor. The background is let in and kept out in turns of the same run, so each ratio has its own
baseline; beside it the same without gates, at the usual priority and at nice 19.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, quantiles

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import gate_model  # noqa: E402
from fallow.idle_gaps.announce import ENV_PAGE as OWN  # noqa: E402
from fallow.idle_gaps.gate import ENV_PAGE, RESERVE  # noqa: E402
from fallow.idle_gaps.guard import Guard  # noqa: E402
from fallow.idle_gaps.page import create  # noqa: E402

GATES: tuple[tuple[str, gate_model.Made, int], ...] = (
    ("each piece awaited, its longest run", gate_model.OnePiece, 1),
    ("Fallow's, the optimizer whole", gate_model.fallows, 1),
    ("Fallow's", gate_model.fallows, gate_model.PARTS),
)

TURN_S = 1.5
"""How long the background is let in or kept out: some fifteen steps of the foreground."""

FOREGROUND = """
import sys, time
import torch
from torch import nn
import fallow

torch.set_num_threads(1)
torch.manual_seed(0)

class Slow(torch.utils.data.Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, index):
        if index % 8 == 0: time.sleep(0.06)
        return torch.full((64,), float(index % 7)), torch.tensor(index % 3)

middle = [nn.Linear(512, 512) for _ in range(12)]
model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), *middle, nn.Linear(512, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
trainer = fallow.connect().elastic(model, optimizer, global_batch=8, max_micro_batch=8)
loss = nn.CrossEntropyLoss()
last = time.monotonic()
with open(sys.argv[1], "w", buffering=1) as out:
    for step, batches in trainer.steps(Slow(), total_steps=1_000_000, shuffle=False, workers=0):
        for x, y in batches:
            for _ in range(4):
                model(x)
            trainer.backward(loss(model(x), y))
        trainer.step()
        now = time.monotonic()
        out.write(f"{now} {now - last}\\n")
        last = now
"""

BACKGROUND = """
import sys, time
import torch
from torch import nn
import fallow

torch.set_num_threads(1)
fallow.listen()
model = nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(24)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(32, 512)
with open(sys.argv[1], "w", buffering=1) as out:
    while True:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        out.write(f"{time.monotonic()} {time.process_time()}\\n")
"""


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a shorter run")
    parser.add_argument("--only", choices=("gate", "guard", "real"), help="one of the three tables")
    asked = parser.parse_args()
    if asked.only in (None, "gate"):
        _gates(10.0 if asked.quick else 60.0)
    if asked.only in (None, "guard"):
        _modelled(2_000 if asked.quick else 20_000)
    if asked.only in (None, "real"):
        _real(15.0 if asked.quick else 60.0)
    return 0


# -- the gate on a model of a GPU -----------------------------------------------------------------------


def _gates(seconds: float) -> None:
    print("The gate on a model of an H100 with half of its time idle; the foreground over itself alone.")
    print("Bound: what of its own speed a gate could give that costs nothing and waits for nothing.")
    print(f"{'in front':10}{'gate':34}{'own speed':>10}{'bound':>7}{'of it':>7}{'p50':>8}{'p99':>8}")
    for front in ("training", "server"):
        for name, made, parts in GATES:
            found = gate_model.beside(made, parts, front == "server", seconds)
            print(
                f"{front:10}{name:34}{found.speed:10.1%}{found.idle:7.1%}{found.speed / found.idle:7.0%}"
                f"{found.p50:8.3f}{found.p99:8.3f}"
            )
    print("\nA background step with gates that are always open, over one without gates")
    print(f"{'gate':44}{'device busy':>14}{'host slower':>14}")
    for name, made, parts in GATES:
        ratios = [
            gate_model.step_s(made, parts, launch_s) / gate_model.step_s(None, 1, launch_s)
            for launch_s in (gate_model.LAUNCH_S, gate_model.SLOW_LAUNCH_S)
        ]
        print(f"{name:44}" + "".join(f"{ratio:14.3f}" for ratio in ratios))
    print()


# -- the model ------------------------------------------------------------------------------------------


def _modelled(steps: int) -> None:
    print(
        "Model of a GPU: 10 ms of work, a gap of 5 ms, pieces of 0.5 ms; beside the same without background"
    )
    print(f"{'guard':28}{'mean':>8}{'p99':>8}{'own p99':>9}{'harvested':>11}")
    for name, admitted in (("by gap, control steps", _by_gap), ("moving average, 1.1", _moving_average)):
        draw = random.Random(7)
        alone, beside, filled, gaps = admitted(draw, steps)
        print(
            f"{name:28}{fmean(beside) / fmean(alone):8.3f}{_p99(beside) / median(alone):8.3f}"
            f"{_p99(alone) / median(alone):9.3f}{filled / gaps:11.0%}"
        )


Outcome = tuple[list[float], list[float], float, float]
"""Steps as they would be alone, steps as they were, filled time, time of all gaps."""


def _by_gap(draw: random.Random, steps: int) -> Outcome:
    guard, lengths, pieces = Guard(), deque[float](maxlen=16), deque([0.5], maxlen=16)
    alone: list[float] = []
    beside: list[float] = []
    filled = gaps = 0.0
    for _ in range(steps):
        work, gap, at = draw.gauss(10, 0.2), 5 * draw.lognormvariate(0, 0.1), 0.0
        expected = median(lengths) if lengths and not guard.is_control else 0.0
        while at + RESERVE * max(pieces) <= guard.share * (expected - at) + at and at < gap:
            pieces.append(abs(draw.gauss(0.5, 0.02)))
            at += pieces[-1]
        if guard.is_control:
            lengths.append(gap)
        late = max(0.0, at - gap)
        filled, gaps = filled + at - late, gaps + gap
        alone.append(work + gap)
        beside.append(work + gap + late)
        guard.end_step((work + gap + late) / 1000)
    return alone, beside, filled, gaps


def _moving_average(draw: random.Random, steps: int) -> Outcome:
    """Pieces start whenever the GPU waits, while the average of steps is below 1.1 of the best known."""
    alone: list[float] = []
    beside: list[float] = []
    filled = gaps = 0.0
    average, best = 15.0, 15.0
    for _ in range(steps):
        work, gap, at = draw.gauss(10, 0.2), 5 * draw.lognormvariate(0, 0.1), 0.0
        if average <= 1.1 * best:
            while at < gap:
                at += abs(draw.gauss(0.5, 0.02))
        late = max(0.0, at - gap)
        filled, gaps = filled + at - late, gaps + gap
        alone.append(work + gap)
        beside.append(work + gap + late)
        average += 0.1 * (beside[-1] - average)
        best = min(best, average)
    return alone, beside, filled, gaps


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100)[-1]


# -- two real trainings ---------------------------------------------------------------------------------


def _real(seconds: float) -> None:
    print("\nTwo trainings on one processor; steps with the background let in, over steps with it kept out")
    print(
        f"{'background':28}{'median':>8}{'mean':>8}{'p99':>8}{'harvested of gaps':>19}{'steps in / out':>16}"
    )
    with tempfile.TemporaryDirectory() as folder:
        own = _alone(Path(folder))
        for name, gated, nice in (("in gaps", True, 0), ("free", False, 0), ("free, nice 19", False, 19)):
            print(f"{name:28}{_played(Path(folder), gated, nice, seconds, own)}")


def _alone(folder: Path) -> float:
    """Processor seconds of a background step by itself."""
    job = _start(folder, "background.py", BACKGROUND, {})
    _wait_for(folder / "background.py.log", 40)
    _stop(job)
    rows = _rows(folder / "background.py.log")[5:]
    return (rows[-1][1] - rows[0][1]) / (len(rows) - 1)


def _played(folder: Path, gated: bool, nice: int, seconds: float, own: float) -> str:
    path = folder / f"page {gated} {nice}"
    page = create(path)
    for log in folder.glob("*.log"):
        log.unlink()
    foreground = _start(folder, "foreground.py", FOREGROUND, {OWN: str(path)})
    background = _start(folder, "background.py", BACKGROUND, {ENV_PAGE: str(path)} if gated else {}, nice)
    turns: list[tuple[float, float, bool]] = []
    try:
        page.allow(is_allowed=True)
        _wait_for(folder / "foreground.py.log", 30)
        _wait_for(folder / "background.py.log", 3)
        until = time.monotonic() + seconds
        is_in = False
        while time.monotonic() < until:
            is_in = not is_in
            page.allow(is_allowed=is_in)
            background.send_signal(signal.SIGCONT if is_in or gated else signal.SIGSTOP)
            begun = time.monotonic()
            time.sleep(TURN_S)
            turns.append((begun + 0.2, begun + TURN_S, is_in))
    finally:
        background.send_signal(signal.SIGCONT)
        _stop(foreground)
        _stop(background)
        page.close()
    return _summed(_rows(folder / "foreground.py.log"), _rows(folder / "background.py.log"), turns, own)


def _summed(
    steps: list[tuple[float, float]],
    work: list[tuple[float, float]],
    turns: list[tuple[float, float, bool]],
    own: float,
) -> str:
    within = {
        side: [
            took for at, took in steps if any(a + took <= at <= b and side == is_in for a, b, is_in in turns)
        ]
        for side in (True, False)
    }
    made = sum(any(a <= at <= b and is_in for a, b, is_in in turns) for at, _ in work)
    gaps = 0.06 * len(within[True])
    first, second = within[True], within[False]
    return (
        f"{median(first) / median(second):8.3f}{fmean(first) / fmean(second):8.3f}"
        f"{_p99(first) / _p99(second):8.3f}"
        f"{made * own / gaps:19.0%}{f'{len(first)} / {len(second)}':>16}"
    )


def _wait_for(log: Path, lines: int) -> None:
    """Until so many steps were taken: imports take seconds on a busy machine."""
    until = time.monotonic() + 120
    while not log.exists() or log.read_text().count("\n") < lines:
        if time.monotonic() > until:
            raise TimeoutError(f"{log.name} has fewer than {lines} steps after 120 s")
        time.sleep(0.1)


def _start(
    folder: Path, name: str, script: str, more: dict[str, str], nice: int = 0
) -> subprocess.Popen[bytes]:
    (folder / name).write_text(script)
    return subprocess.Popen(
        [
            "taskset",
            "-c",
            "0",
            "nice",
            "-n",
            str(nice),
            sys.executable,
            str(folder / name),
            str(folder / f"{name}.log"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), **more},
    )


def _stop(job: subprocess.Popen[bytes]) -> None:
    job.kill()
    job.wait()


def _rows(path: Path) -> list[tuple[float, float]]:
    """Whole lines of a log of two numbers."""
    lines = path.read_text().splitlines()
    return [(float(a), float(b)) for a, b in (line.split() for line in lines[:-1])]


if __name__ == "__main__":
    sys.exit(main())
