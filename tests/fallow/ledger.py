"""What workers did, written as they did it, and whether that was a sound training.

Each worker appends a line to one file before a step's sum (its part: which samples) and after the commit; a
line is one write, so that it outlives SIGKILL and doesn't mix with others'.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class Ledger:
    """One worker's pen."""

    def __init__(self, path: Path | str, member: str):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._member = member

    def part(self, step: int, generation: int, ids: Iterable[int]) -> None:
        self._write(kind="part", step=step, generation=generation, ids=list(ids))

    def commit(self, step: int, generation: int, loss: float) -> None:
        self._write(kind="commit", step=step, generation=generation, loss=loss)

    def _write(self, **entry: object) -> None:
        os.write(self._file, (json.dumps({"member": self._member, **entry}) + "\n").encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """``attempts`` of a step: in how many generations somebody computed a part; ``losses`` as committed."""

    attempts: dict[int, int]
    losses: dict[int, float]


def audit(path: Path, steps: int | None, samples: int, global_batch: int) -> Account:
    """Check a training's ledger; raises AssertionError where a batch was wrong, double or missing.

    ``steps`` is how many it must hold; ``None`` for however many a training did before it was stopped.
    """
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    parts: dict[tuple[int, int], list[int]] = defaultdict(list)
    commits: dict[int, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    done: dict[str, list[int]] = defaultdict(list)
    losses: dict[int, float] = {}
    for entry in entries:
        step, generation = entry["step"], entry["generation"]
        if entry["kind"] == "part":
            parts[step, generation] += entry["ids"]
        else:
            commits[step][generation].add(entry["member"])
            done[entry["member"]].append(step)
            losses[step] = entry["loss"]
    steps = len(commits) if steps is None else steps
    assert sorted(commits) == list(range(steps)), "a step is missing"
    for member, own in done.items():
        assert own == sorted(set(own)), f"{member} committed a step twice"
    per_epoch = -(-samples // global_batch)
    seen: dict[int, list[int]] = defaultdict(list)
    before = 0
    for step in range(steps):
        generation = max(commits[step])
        assert generation >= before, f"step {step} was committed in a generation that was over"
        for earlier in set(commits[step]) - {generation}:
            going_on = {m for m in commits[step][earlier] if done[m][-1] > step}
            assert not going_on, f"{going_on} went on from a step {step} that the others took again"
        before = generation
        seen[step // per_epoch] += parts[step, generation]
    for epoch, ids in seen.items():
        whole = steps - epoch * per_epoch
        assert len(ids) == len(set(ids)), f"a sample of epoch {epoch} was used twice"
        if whole >= per_epoch:
            assert sorted(ids) == list(range(samples)), f"epoch {epoch} is not whole"
        else:
            assert len(ids) == whole * global_batch, f"epoch {epoch} has a step of the wrong size"
    attempts = {step: len({g for s, g in parts if s == step}) for step in range(steps)}
    return Account(attempts=attempts, losses=losses)
