"""The body of a launcher's report: what it says of its job, checked where it comes in."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from advisor.jobs.model import ExitReason, IdleGapCounts, JobState, Launcher, Report
from advisor.tags import as_now
from collector.model import GpuUuid, NodeName
from collector.procfs.job_root import without_secrets
from service.api.orders import (
    MOST_BYTES,
    MOST_GPUS,
    MOST_PROOF,
    NODE,
    PAGE,
    PROOF,
    Device,
    Moment,
    Number,
    Order,
    Ordinal,
    Said,
    Truth,
    shown,
)


def _few_sizes(value: object) -> object:
    """The same for the sizes that a report tells of."""
    if isinstance(value, dict) and len(value) > MOST_GPUS:
        raise PydanticCustomError("sizes", "{count} sizes; at most 1024 are taken", {"count": len(value)})
    return value


class LauncherOrder(Order):
    """The process that runs a job: its node, pid and start time."""

    node: Annotated[str, Field(strict=True, pattern=NODE)]
    pid: Annotated[int, Field(strict=True, ge=1, le=2**31)]
    started_ms: Moment


class IdleGapsOrder(Order):
    """What a launcher reads on the page of one GPU."""

    gpu: Device
    page: Annotated[str, Field(strict=True, max_length=256, pattern=PAGE)]
    steps: Moment
    alone_s: Number | None = None
    gaps_s: Number | None = None
    slowdown_ratio: Number | None = None
    work_s: Number | None = None

    def counts(self) -> IdleGapCounts:
        """The same as the register takes it."""
        return IdleGapCounts(
            gpu=GpuUuid(self.gpu),
            page=self.page,
            steps=self.steps,
            alone_s=self.alone_s,
            gaps_s=self.gaps_s,
            slowdown_ratio=self.slowdown_ratio,
            work_s=self.work_s,
        )


class ReportOrder(Order):
    """What a launcher says of its job; one that an older Fallow started says it in its own words."""

    @model_validator(mode="before")
    @classmethod
    def _has_todays_names(cls, value: object) -> object:
        return as_now(Report, value) if isinstance(value, dict) else value

    at_ms: Moment
    launcher: LauncherOrder
    state: JobState
    acknowledged: Ordinal = 0
    failed: Said | None = None
    pids: Annotated[list[Annotated[int, Field(strict=True, ge=1, le=2**31)]], Field(max_length=4_096)] = (
        Field(default_factory=list)
    )
    gpus: Annotated[list[Device], Field(max_length=MOST_GPUS)] = Field(default_factory=list)
    step: Moment | None = None
    counted_ms: Moment | None = None
    steps_left: Number | None = None
    step_s: Annotated[
        dict[Annotated[str, Field(pattern="^[1-9][0-9]{0,3}$")], Number],
        BeforeValidator(_few_sizes),
        Field(max_length=MOST_GPUS),
    ] = Field(default_factory=dict)
    resize_s: Number | None = None
    memory_held_bytes: Annotated[int, Field(strict=True, ge=0, le=MOST_BYTES)] | None = None
    memory_needed_bytes: Annotated[int, Field(strict=True, ge=0, le=MOST_BYTES)] | None = None
    checkpoint_ms: Moment | None = None
    attached: Truth | None = None
    quiet_s: Number | None = None
    exit_reason: ExitReason | None = None
    exit_code: Annotated[int, Field(strict=True, ge=-255, le=255)] | None = None
    proof: Annotated[str, Field(strict=True, max_length=MOST_PROOF, pattern=PROOF)] = ""
    idle_gaps: Annotated[list[IdleGapsOrder], Field(max_length=MOST_GPUS)] = Field(default_factory=list)

    def report(self) -> Report:
        """The same as the register takes it."""
        return Report(
            at_ms=self.at_ms,
            launcher=Launcher(
                node=NodeName(self.launcher.node),
                pid=self.launcher.pid,
                started_ms=self.launcher.started_ms,
            ),
            state=self.state,
            acknowledged=self.acknowledged,
            failed=None if self.failed is None else shown(without_secrets(self.failed)),
            pids=tuple(self.pids),
            gpus=tuple(GpuUuid(each) for each in self.gpus),
            step=self.step,
            counted_ms=self.counted_ms,
            steps_left=self.steps_left,
            step_s={int(size): seconds for size, seconds in self.step_s.items()},
            resize_s=self.resize_s,
            memory_held_bytes=self.memory_held_bytes,
            memory_needed_bytes=self.memory_needed_bytes,
            checkpoint_ms=self.checkpoint_ms,
            attached=self.attached,
            quiet_s=self.quiet_s,
            exit_reason=self.exit_reason,
            exit_code=self.exit_code,
            proof=self.proof,
            idle_gaps=tuple(each.counts() for each in self.idle_gaps),
        )
