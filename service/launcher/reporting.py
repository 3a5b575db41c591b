"""What a launcher says of its job: from the job's course, and from what the job itself told."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.jobs.model import IdleGapCounts, Launcher, Report
from service.launcher.model import StateMachine

# A traceback's worth; the service keeps it with the job.
LONGEST_WHY = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnStatus:
    """A job's own word on itself; ``None`` where it has none."""

    pids: tuple[int, ...] = ()
    step: int | None = None
    counted_ms: int | None = None
    steps_left: float | None = None
    step_s: Mapping[int, float] = field(default_factory=dict)
    resize_s: float | None = None
    memory_held_bytes: int | None = None
    memory_needed_bytes: int | None = None
    checkpoint_ms: int | None = None

    @staticmethod
    def of_status(answer: Mapping[str, Any], before: "OwnStatus", at_ms: int) -> "OwnStatus":
        """What a controller, or the library in a plain job, answers to ``status`` at ``at_ms``, steady.

        What it measured once stays known when its workers have left or were started anew.
        """
        sizes = {int(size): float(each) for size, each in (answer.get("step_s") or {}).items()}
        needed = (before.memory_needed_bytes, answer.get("memory_needed_bytes", answer.get("needed")))
        return OwnStatus(
            pids=tuple(int(pid) for pid in (answer.get("pids") or {}).values() if pid),
            step=answer.get("step"),
            counted_ms=None if answer.get("step") is None else at_ms,
            steps_left=answer.get("steps_left"),
            step_s={**before.step_s, **sizes},
            resize_s=before.resize_s if answer.get("resize_s") is None else answer["resize_s"],
            memory_held_bytes=answer.get("memory_held_bytes", answer.get("held")),
            memory_needed_bytes=max((each for each in needed if each is not None), default=None),
            checkpoint_ms=answer.get("checkpoint_ms") or before.checkpoint_ms,
        )

    def with_saved(self, path: Path) -> "OwnStatus":
        """With the time at which the job last said that it saved itself."""
        try:
            saved_ms = path.stat().st_mtime_ns // 1_000_000
        except OSError:
            return self
        return replace(self, checkpoint_ms=max(saved_ms, self.checkpoint_ms or 0))


def report(
    course: StateMachine,
    launcher: Launcher,
    own: OwnStatus,
    now_ms: int,
    *,
    quiet_s: float | None,
    idle_gaps: tuple[IdleGapCounts, ...] = (),
) -> Report:
    """The report of this moment; ``quiet_s`` since somebody typed, ``None`` where nobody can sit."""
    over = course.over
    return Report(
        at_ms=now_ms,
        launcher=launcher,
        state=course.state,
        acknowledged=course.acknowledged,
        failed=None if course.failed is None else course.failed[:LONGEST_WHY],
        pids=tuple(dict.fromkeys((*course.pids, *own.pids))) if course.alive else (),
        gpus=() if course.lease is None or course.lease.page else course.lease.gpus,
        step=own.step,
        counted_ms=own.counted_ms,
        steps_left=own.steps_left,
        step_s=own.step_s,
        resize_s=own.resize_s,
        memory_held_bytes=own.memory_held_bytes,
        memory_needed_bytes=own.memory_needed_bytes,
        checkpoint_ms=own.checkpoint_ms,
        attached=quiet_s is not None,
        quiet_s=quiet_s,
        exit_reason=None if over is None else over.exit_reason,
        exit_code=None if over is None else over.code,
        proof=course.proof,
        idle_gaps=idle_gaps,
    )
