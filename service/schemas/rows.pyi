"""The rows of named queries as JSON has them, for the type checker alone: each is a dictionary.

Written by ``python -m tests.service.rows_stub``. A column that its query does not promise may be ``None``.
A ``Record`` is the row of a frame (``DataFrame.to_dict("records")``), a ``Tuple`` the same of ``itertuples``:
times are UTC, and what is missing may be NaN or NaT.
"""

# mypy: disable-error-code="overload-overlap"

from typing import Literal, Protocol, TypedDict, overload

import pandas as pd

AccountedRunsRow = TypedDict(
    "AccountedRunsRow",
    {
        "job": str,
        "shown_id": str,
        "user_name": str | None,
        "project": str | None,
        "job_name": str | None,
        "cluster": str,
        "partition": str | None,
        "qos": str | None,
        "state_name": str,
        "exit_code": str | None,
        "gpus": int,
        "gpu_types": str | None,
        "asked_gpus": int | None,
        "node_names": list[str],
        "submitted_at": str,
        "started_at": str | None,
        "ended_at": str,
        "measured_gpus": int | None,
        "unused_gpus": int | None,
        "utilization_ratio": float | None,
        "measured": str | None,
    },
)

AccountedUseRow = TypedDict(
    "AccountedUseRow",
    {
        "key": str | None,
        "runs": int | None,
        "gpu_hours": float | None,
        "beside_gpu_hours": float | None,
        "uncounted_gpu_hours": float | None,
        "measured_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "unused_gpu_hours": float | None,
        "utilization_ratio": float | None,
    },
)

ActivityRow = TypedDict(
    "ActivityRow",
    {
        "job": str | None,
        "user_name": str | None,
        "project": str | None,
        "job_name": str | None,
        "kind": str | None,
        "framework": str | None,
        "held_gpu_minutes": int | None,
        "measured_gpu_minutes": float | None,
        "suspect_gpu_minutes": float | None,
        "minutes": int | None,
        "active_minutes": int | None,
        "runs": int | None,
        "run_median_minutes": float | None,
        "run_longest_minutes": int | None,
        "gap_median_minutes": float | None,
        "gap_longest_minutes": int | None,
        "edge_longest_minutes": int | None,
        "utilization_ratio": float | None,
        "engine_minutes": int | None,
    },
)

AlertsRow = TypedDict(
    "AlertsRow",
    {
        "number": int,
        "kind": str,
        "rung": str,
        "level": int | None,
        "title": str,
        "says": str,
        "next": str,
        "command": str | None,
        "job": str | None,
        "user_name": str | None,
        "project": str | None,
        "node": str | None,
        "gpus": str | None,
        "since_ts": str,
        "opened_at": str | None,
        "changed_at": str | None,
        "closed_at": str | None,
        "because": str | None,
        "told": str | None,
        "told_at": str | None,
        "waiting": str | None,
        "missed": str | None,
        "evidence": str | None,
    },
)

ChargedAlikeRow = TypedDict(
    "ChargedAlikeRow",
    {
        "shared_gpu_hours": float,
        "alike_gpu_hours": float,
        "unclear_gpu_hours": float,
    },
)

ClusterNowRow = TypedDict(
    "ClusterNowRow",
    {
        "as_of": str | None,
        "gpus": float | None,
        "held_gpus": float | None,
        "idle_held_gpus": float | None,
        "rarely_used_gpus": float | None,
        "free_gpus": float | None,
        "withheld_gpus": float | None,
        "withheld_because": str | None,
        "unknown_gpus": float | None,
        "used_gpus": float | None,
        "bound_used_gpus": float | None,
        "utilization_ratio": float | None,
        "power_w": float | None,
        "memory_used_bytes": int | None,
        "memory_total_bytes": int | None,
    },
)

ClusterNowRecord = TypedDict(
    "ClusterNowRecord",
    {
        "as_of": pd.Timestamp | None,
        "gpus": float | None,
        "held_gpus": float | None,
        "idle_held_gpus": float | None,
        "rarely_used_gpus": float | None,
        "free_gpus": float | None,
        "withheld_gpus": float | None,
        "withheld_because": str | None,
        "unknown_gpus": float | None,
        "used_gpus": float | None,
        "bound_used_gpus": float | None,
        "utilization_ratio": float | None,
        "power_w": float | None,
        "memory_used_bytes": int | None,
        "memory_total_bytes": int | None,
    },
)

ClustersAlikeRow = TypedDict(
    "ClustersAlikeRow",
    {
        "cluster": str,
        "other": str,
        "told_by": str,
        "nodes": int,
        "last_ts": str | None,
        "other_last_ts": str | None,
    },
)

ConsentsRow = TypedDict(
    "ConsentsRow",
    {
        "user_name": str | None,
        "job": str | None,
        "kind": str | None,
        "allowed": bool | None,
        "at_ms": int | None,
        "until_ms": int | None,
    },
)

DataOriginRow = TypedDict(
    "DataOriginRow",
    {
        "origin": str | None,
        "since": str | None,
    },
)

EventsRow = TypedDict(
    "EventsRow",
    {
        "ts": str | None,
        "uuid": str | None,
        "node": str | None,
        "gpu_index": int | None,
        "gpu_place": str | None,
        "kind": str | None,
        "detail": str | None,
    },
)

FindingsRow = TypedDict(
    "FindingsRow",
    {
        "finding_id": int,
        "kind": str,
        "uuid": str,
        "node": str,
        "gpu_index": int | None,
        "gpu_place": str | None,
        "model": str | None,
        "user_name": str | None,
        "project": str | None,
        "job": str | None,
        "job_name": str | None,
        "job_kind": str | None,
        "opened_at": str,
        "last_seen_at": str,
        "closed_at": str | None,
        "window_from": str,
        "window_to": str,
        "coverage": float | None,
        "rung": int | None,
        "wasted_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
        "sentence": str,
        "judged_gpu_hours": float | None,
        "evidence": str | None,
    },
)

class FindingsTuple(Protocol):
    finding_id: int
    kind: str
    uuid: str
    node: str
    gpu_index: int | None
    gpu_place: str | None
    model: str | None
    user_name: str | None
    project: str | None
    job: str | None
    job_name: str | None
    job_kind: str | None
    opened_at: pd.Timestamp
    last_seen_at: pd.Timestamp
    closed_at: pd.Timestamp | None
    window_from: pd.Timestamp
    window_to: pd.Timestamp
    coverage: float | None
    rung: int | None
    wasted_gpu_hours: float | None
    low_saturation_gpu_hours: float | None
    wasted_cost: float | None
    currency: str | None
    wasted_energy_kwh: float | None
    wasted_energy_known_ratio: float | None
    sentence: str
    judged_gpu_hours: float | None
    evidence: str | None

FindingsByKindRow = TypedDict(
    "FindingsByKindRow",
    {
        "kind": str | None,
        "findings": int | None,
        "gpus": int | None,
        "wasted_gpu_hours": float | None,
    },
)

GapsRow = TypedDict(
    "GapsRow",
    {
        "source": str,
        "node": str | None,
        "uuid": str | None,
        "from_ts": str,
        "to_ts": str,
        "reason": str,
    },
)

GivenBackRow = TypedDict(
    "GivenBackRow",
    {
        "intent": int | None,
        "done_at": str | None,
        "job": str | None,
        "user_name": str | None,
        "project": str | None,
        "verb": str | None,
        "class": str | None,
        "gpus": int | None,
        "due_gpu_hours": float | None,
        "known_gpu_hours": float | None,
        "freed_gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "worked_gpu_hours": float | None,
        "worked_cost": float | None,
        "currency": str | None,
    },
)

GpuHoldersRow = TypedDict(
    "GpuHoldersRow",
    {
        "from_ts": str | None,
        "from_is_bound": bool | None,
        "to_ts": str | None,
        "user_name": str | None,
        "project": str | None,
        "job": str | None,
        "job_name": str | None,
        "share": float | None,
        "source": str | None,
    },
)

GpuHoldersRecord = TypedDict(
    "GpuHoldersRecord",
    {
        "from_ts": pd.Timestamp | None,
        "from_is_bound": bool | None,
        "to_ts": pd.Timestamp | None,
        "user_name": str | None,
        "project": str | None,
        "job": str | None,
        "job_name": str | None,
        "share": float | None,
        "source": str | None,
    },
)

GpuNamesRow = TypedDict(
    "GpuNamesRow",
    {
        "uuid": str,
        "node": str | None,
        "gpu_place": str | None,
        "to_ts": str | None,
    },
)

GpuTimelineRow = TypedDict(
    "GpuTimelineRow",
    {
        "ts": str | None,
        "utilization_ratio": float | None,
        "rung": int | None,
        "gpu_utilization_ratio": float | None,
        "gpu_utilization_max_ratio": float | None,
        "gpu_busy_ratio": float | None,
        "memory_controller_ratio": float | None,
        "encoder_ratio": float | None,
        "decoder_ratio": float | None,
        "graphics_active_ratio": float | None,
        "sm_active_ratio": float | None,
        "sm_occupancy_ratio": float | None,
        "tensor_active_ratio": float | None,
        "dram_active_ratio": float | None,
        "memory_used_bytes": float | None,
        "memory_used_max_bytes": int | None,
        "power_w": float | None,
        "temperature_c": float | None,
        "sm_clock_mhz": float | None,
        "memory_clock_mhz": float | None,
        "process_count": int | None,
        "state": str | None,
        "holders": str | None,
    },
)

GpusNowRow = TypedDict(
    "GpusNowRow",
    {
        "uuid": str,
        "node": str,
        "gpu_index": int | None,
        "gpu_place": str | None,
        "model": str | None,
        "mig_profile": str | None,
        "state": str,
        "state_reason": str | None,
        "rhythm": str | None,
        "rhythm_since": str | None,
        "state_since": str | None,
        "state_since_is_bound": bool | None,
        "user_name": str | None,
        "project": str | None,
        "job": str | None,
        "job_name": str | None,
        "framework": str | None,
        "utilization_ratio": float | None,
        "engines_ratio": float | None,
        "copies_ratio": float | None,
        "rung": int | None,
        "gpu_utilization_ratio": float | None,
        "sm_active_ratio": float | None,
        "memory_used_bytes": int | None,
        "memory_total_bytes": int | None,
        "power_w": float | None,
        "temperature_c": int | None,
        "process_count": int | None,
        "as_of": str | None,
    },
)

GpusNowRecord = TypedDict(
    "GpusNowRecord",
    {
        "uuid": str,
        "node": str,
        "gpu_index": int | None,
        "gpu_place": str | None,
        "model": str | None,
        "mig_profile": str | None,
        "state": str,
        "state_reason": str | None,
        "rhythm": str | None,
        "rhythm_since": pd.Timestamp | None,
        "state_since": pd.Timestamp | None,
        "state_since_is_bound": bool | None,
        "user_name": str | None,
        "project": str | None,
        "job": str | None,
        "job_name": str | None,
        "framework": str | None,
        "utilization_ratio": float | None,
        "engines_ratio": float | None,
        "copies_ratio": float | None,
        "rung": int | None,
        "gpu_utilization_ratio": float | None,
        "sm_active_ratio": float | None,
        "memory_used_bytes": int | None,
        "memory_total_bytes": int | None,
        "power_w": float | None,
        "temperature_c": int | None,
        "process_count": int | None,
        "as_of": pd.Timestamp | None,
    },
)

class GpusNowTuple(Protocol):
    uuid: str
    node: str
    gpu_index: int | None
    gpu_place: str | None
    model: str | None
    mig_profile: str | None
    state: str
    state_reason: str | None
    rhythm: str | None
    rhythm_since: pd.Timestamp | None
    state_since: pd.Timestamp | None
    state_since_is_bound: bool | None
    user_name: str | None
    project: str | None
    job: str | None
    job_name: str | None
    framework: str | None
    utilization_ratio: float | None
    engines_ratio: float | None
    copies_ratio: float | None
    rung: int | None
    gpu_utilization_ratio: float | None
    sm_active_ratio: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_w: float | None
    temperature_c: int | None
    process_count: int | None
    as_of: pd.Timestamp | None

HarvestsRow = TypedDict(
    "HarvestsRow",
    {
        "job": str,
        "foreground": str,
        "gpu_uuid": str,
        "from_ms": int,
        "to_ms": int,
        "steps": int,
        "step_s": float | None,
        "harvested_gpu_s": float | None,
        "slowdown_ratio": float | None,
        "foreground_steps": int | None,
    },
)

HeatmapRow = TypedDict(
    "HeatmapRow",
    {
        "uuid": str | None,
        "node": str | None,
        "gpu_index": int | None,
        "gpu_place": str | None,
        "ts": str | None,
        "utilization_ratio": float | None,
        "is_upper_bound": bool | None,
        "held_ratio": float | None,
        "state": str | None,
    },
)

HeatmapByNodeRow = TypedDict(
    "HeatmapByNodeRow",
    {
        "node": str | None,
        "ts": str | None,
        "utilization_ratio": float | None,
        "is_upper_bound": bool | None,
        "held_ratio": float | None,
        "state": str | None,
    },
)

IdleStretchesRow = TypedDict(
    "IdleStretchesRow",
    {
        "job": str | None,
        "user_name": str | None,
        "project": str | None,
        "kind": str | None,
        "gpus": float | None,
        "model": str | None,
        "from_ms": int | None,
        "to_ms": int | None,
        "open": bool | None,
        "first": bool | None,
        "unstarted": bool | None,
        "worked_after": bool | None,
        "unmeasured_ms": int | None,
    },
)

IntrusionsRow = TypedDict(
    "IntrusionsRow",
    {
        "uuid": str,
        "node": str,
        "gpu_index": int | None,
        "gpu_place": str | None,
        "model": str | None,
        "given_to": str | None,
        "user_name": str | None,
        "pid": int | None,
        "process_name": str | None,
        "command": str | None,
        "memory_used_bytes": int | None,
        "sm_ratio": float | None,
        "from_ts": str,
        "to_ts": str | None,
    },
)

JobGpusRow = TypedDict(
    "JobGpusRow",
    {
        "uuid": str,
        "node": str,
        "gpu_index": int | None,
        "gpu_place": str | None,
        "model": str | None,
        "mig_profile": str | None,
        "from_ts": str | None,
        "from_is_bound": bool | None,
        "to_ts": str | None,
        "gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "wasted_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "busy_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "rung": int | None,
        "memory_used_max_bytes": int | None,
        "memory_total_bytes": int | None,
        "found": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
        "shared_with": int | None,
        "is_told_apart": bool | None,
    },
)

JobTimelineRow = TypedDict(
    "JobTimelineRow",
    {
        "ts": str | None,
        "uuid": str | None,
        "node": str | None,
        "gpu_index": int | None,
        "gpu_place": str | None,
        "share": float | None,
        "utilization_ratio": float | None,
        "rung": int | None,
        "gpu_utilization_ratio": float | None,
        "gpu_utilization_max_ratio": float | None,
        "gpu_busy_ratio": float | None,
        "memory_controller_ratio": float | None,
        "encoder_ratio": float | None,
        "decoder_ratio": float | None,
        "graphics_active_ratio": float | None,
        "sm_active_ratio": float | None,
        "sm_occupancy_ratio": float | None,
        "tensor_active_ratio": float | None,
        "dram_active_ratio": float | None,
        "memory_used_bytes": float | None,
        "memory_used_max_bytes": int | None,
        "power_w": float | None,
        "temperature_c": float | None,
        "sm_clock_mhz": float | None,
        "memory_clock_mhz": float | None,
        "process_count": int | None,
    },
)

JobsRow = TypedDict(
    "JobsRow",
    {
        "job": str,
        "job_name": str | None,
        "user_name": str | None,
        "project": str | None,
        "framework": str | None,
        "kind": str | None,
        "command": str | None,
        "gpus": int | None,
        "gpus_at_once": int | None,
        "runs": int | None,
        "from_ts": str | None,
        "from_is_bound": bool | None,
        "to_ts": str | None,
        "measured_to": str | None,
        "gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "wasted_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "memory_used_max_bytes": int | None,
        "unknown_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "busy_gpu_hours": float | None,
        "engine_gpu_hours": float | None,
        "copied_gpu_hours": float | None,
        "gpus_used": int | None,
        "rung": int | None,
        "found": str | None,
        "cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

JobsRecord = TypedDict(
    "JobsRecord",
    {
        "job": str,
        "job_name": str | None,
        "user_name": str | None,
        "project": str | None,
        "framework": str | None,
        "kind": str | None,
        "command": str | None,
        "gpus": int | None,
        "gpus_at_once": int | None,
        "runs": int | None,
        "from_ts": pd.Timestamp | None,
        "from_is_bound": bool | None,
        "to_ts": pd.Timestamp | None,
        "measured_to": pd.Timestamp | None,
        "gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "wasted_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "memory_used_max_bytes": int | None,
        "unknown_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "busy_gpu_hours": float | None,
        "engine_gpu_hours": float | None,
        "copied_gpu_hours": float | None,
        "gpus_used": int | None,
        "rung": int | None,
        "found": str | None,
        "cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

class JobsTuple(Protocol):
    job: str
    job_name: str | None
    user_name: str | None
    project: str | None
    framework: str | None
    kind: str | None
    command: str | None
    gpus: int | None
    gpus_at_once: int | None
    runs: int | None
    from_ts: pd.Timestamp | None
    from_is_bound: bool | None
    to_ts: pd.Timestamp | None
    measured_to: pd.Timestamp | None
    gpu_hours: float | None
    used_gpu_hours: float | None
    wasted_gpu_hours: float | None
    utilization_ratio: float | None
    memory_used_max_bytes: int | None
    unknown_gpu_hours: float | None
    suspect_gpu_hours: float | None
    busy_gpu_hours: float | None
    engine_gpu_hours: float | None
    copied_gpu_hours: float | None
    gpus_used: int | None
    rung: int | None
    found: str | None
    cost: float | None
    currency: str | None
    energy_kwh: float | None
    energy_known_ratio: float | None
    wasted_energy_kwh: float | None
    wasted_energy_known_ratio: float | None

JudgementRow = TypedDict(
    "JudgementRow",
    {
        "judged_at": str | None,
    },
)

LedgerByAccountRow = TypedDict(
    "LedgerByAccountRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByClusterRow = TypedDict(
    "LedgerByClusterRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByDayRow = TypedDict(
    "LedgerByDayRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByFrameworkRow = TypedDict(
    "LedgerByFrameworkRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByGpuRow = TypedDict(
    "LedgerByGpuRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByHourRow = TypedDict(
    "LedgerByHourRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByJobRow = TypedDict(
    "LedgerByJobRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByModelRow = TypedDict(
    "LedgerByModelRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByNodeRow = TypedDict(
    "LedgerByNodeRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByPartitionRow = TypedDict(
    "LedgerByPartitionRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByProjectRow = TypedDict(
    "LedgerByProjectRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByQosRow = TypedDict(
    "LedgerByQosRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

LedgerByStateRow = TypedDict(
    "LedgerByStateRow",
    {
        "state": str | None,
        "gpu_hours": float | None,
        "bound_gpu_hours": float | None,
        "share_ratio": float | None,
        "cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
    },
)

class LedgerByStateTuple(Protocol):
    state: str | None
    gpu_hours: float | None
    bound_gpu_hours: float | None
    share_ratio: float | None
    cost: float | None
    currency: str | None
    energy_kwh: float | None
    energy_known_ratio: float | None

LedgerByUserRow = TypedDict(
    "LedgerByUserRow",
    {
        "key": str | None,
        "gpu_hours": float | None,
        "held_gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "wasted_gpu_hours": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

ManagerNodesRow = TypedDict(
    "ManagerNodesRow",
    {
        "cluster": str,
        "node": str,
        "state": str | None,
        "reason": str | None,
        "gpus": int | None,
        "given_gpus": int | None,
        "partitions": str | None,
        "measured_gpus": int,
        "manager": str,
    },
)

ManagerNodesRecord = TypedDict(
    "ManagerNodesRecord",
    {
        "cluster": str,
        "node": str,
        "state": str | None,
        "reason": str | None,
        "gpus": int | None,
        "given_gpus": int | None,
        "partitions": str | None,
        "measured_gpus": int,
        "manager": str,
    },
)

ManagerQueueRow = TypedDict(
    "ManagerQueueRow",
    {
        "job": str,
        "shown_id": str,
        "user_name": str | None,
        "project": str | None,
        "job_name": str | None,
        "cluster": str,
        "partition": str | None,
        "qos": str | None,
        "reservation": str | None,
        "reason": str | None,
        "cause": str | None,
        "limit_met": str | None,
        "gpus": int | None,
        "gpu_type": str | None,
        "shards": int | None,
        "nodes": int | None,
        "tasks": int,
        "priority": int | None,
        "submitted_at": str,
        "expected_at": str | None,
        "as_of": str,
    },
)

ManagerQueueRecord = TypedDict(
    "ManagerQueueRecord",
    {
        "job": str,
        "shown_id": str,
        "user_name": str | None,
        "project": str | None,
        "job_name": str | None,
        "cluster": str,
        "partition": str | None,
        "qos": str | None,
        "reservation": str | None,
        "reason": str | None,
        "cause": str | None,
        "limit_met": str | None,
        "gpus": int | None,
        "gpu_type": str | None,
        "shards": int | None,
        "nodes": int | None,
        "tasks": int,
        "priority": int | None,
        "submitted_at": pd.Timestamp,
        "expected_at": pd.Timestamp | None,
        "as_of": pd.Timestamp,
    },
)

ManagerRunsRow = TypedDict(
    "ManagerRunsRow",
    {
        "job": str,
        "shown_id": str,
        "user_name": str | None,
        "project": str | None,
        "job_name": str | None,
        "kind": str | None,
        "cluster": str,
        "partition": str | None,
        "qos": str | None,
        "reservation": str | None,
        "state": str,
        "state_name": str | None,
        "reason": str | None,
        "limit_met": str | None,
        "restarts": int | None,
        "gpus": int | None,
        "nodes": int,
        "given": str | None,
        "word": str | None,
        "limit_s": int | None,
        "submitted_at": str,
        "started_at": str | None,
        "ended_at": str | None,
    },
)

MarksRow = TypedDict(
    "MarksRow",
    {
        "name": str | None,
        "complete_to": str | None,
    },
)

MeasuredTimeRow = TypedDict(
    "MeasuredTimeRow",
    {
        "measured_s": float,
    },
)

NodesRow = TypedDict(
    "NodesRow",
    {
        "node": str,
        "last_ts": str | None,
        "silent_s": float | None,
        "clock_ahead_s": float,
        "lost_ticks": int,
        "version": str,
        "pushed_ts": str,
        "waiting_ticks": int | None,
        "spool_age_s": float | None,
    },
)

OptionsRow = TypedDict(
    "OptionsRow",
    {
        "dimension": str | None,
        "value": str | None,
    },
)

PairsRow = TypedDict(
    "PairsRow",
    {
        "host": str | None,
        "guest": str | None,
        "gpu_model": str | None,
        "host_profile": str | None,
        "guest_profile": str | None,
        "since_ms": int | None,
        "host_alone": float | None,
        "guest_alone": float | None,
        "gain_expected_gpus": float | None,
        "host_speed_ratio": float | None,
        "guest_speed_ratio": float | None,
        "windows": int | None,
        "undone": bool | None,
    },
)

PastGpusRow = TypedDict(
    "PastGpusRow",
    {
        "uuid": str | None,
        "node": str | None,
        "gpu_index": int | None,
        "gpu_place": str | None,
        "model": str | None,
        "memory_total_bytes": int | None,
        "part_of_device": float | None,
        "from_ms": int | None,
        "to_ms": int | None,
    },
)

PastHoldingsRow = TypedDict(
    "PastHoldingsRow",
    {
        "job": str | None,
        "uuid": str | None,
        "share": float | None,
        "from_ms": int | None,
        "to_ms": int | None,
    },
)

PastJobsRow = TypedDict(
    "PastJobsRow",
    {
        "job": str,
        "user_name": str | None,
        "project": str | None,
        "job_name": str | None,
        "kind": str | None,
        "framework": str | None,
        "gpus": int | None,
        "share": float | None,
        "model": str | None,
        "memory_total_bytes": int | None,
        "part_of_device": float | None,
        "from_ms": int | None,
        "to_ms": int | None,
        "measured_ms": int | None,
        "expected_ms": int | None,
        "idle_ms": int | None,
        "gpus_used": int | None,
        "memory_unused_bytes": int | None,
        "utilization_mean_ratio": float | None,
        "utilization_p95_ratio": float | None,
        "excess_ratios": list[float] | None,
        "controller_p95_ratio": float | None,
        "engine_ms": int | None,
        "memory_peak_bytes": int | None,
        "rung": int | None,
        "others": int | None,
        "per_gpu_hour": float | None,
        "currency": str | None,
    },
)

PatternsRow = TypedDict(
    "PatternsRow",
    {
        "job": str,
        "job_name": str | None,
        "user_name": str | None,
        "project": str | None,
        "framework": str | None,
        "kind": str,
        "evidence": str | None,
        "reason": str | None,
        "window_from": str | None,
        "window_to": str | None,
        "as_of": str,
    },
)

PeopleRow = TypedDict(
    "PeopleRow",
    {
        "user_name": str | None,
        "project": str | None,
        "gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "wasted_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "jobs": int | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

ProcessesNowRow = TypedDict(
    "ProcessesNowRow",
    {
        "node": str | None,
        "pid": int | None,
        "user_name": str | None,
        "process_name": str | None,
        "command": str | None,
        "frameworks": list[str] | None,
        "job": str | None,
        "memory_used_bytes": int | None,
        "sm_ratio": float | None,
        "started_at": str | None,
        "unreadable": list[str] | None,
        "seen_at": str | None,
        "flags": str | None,
    },
)

ProjectUseRow = TypedDict(
    "ProjectUseRow",
    {
        "project": str | None,
        "allocated_ratio": float | None,
        "held_idle_ratio": float | None,
    },
)

ProjectsRow = TypedDict(
    "ProjectsRow",
    {
        "project": str | None,
        "gpu_hours": float | None,
        "used_gpu_hours": float | None,
        "bound_used_gpu_hours": float | None,
        "wasted_gpu_hours": float | None,
        "utilization_ratio": float | None,
        "cost": float | None,
        "wasted_cost": float | None,
        "currency": str | None,
        "jobs": int | None,
        "people": int | None,
        "energy_kwh": float | None,
        "energy_known_ratio": float | None,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

RecordedJobsRow = TypedDict(
    "RecordedJobsRow",
    {
        "job": str | None,
        "user_name": str | None,
        "project": str | None,
        "job_name": str | None,
        "gpus": int | None,
        "share": float | None,
        "from_ms": int | None,
        "run_ms": float | None,
        "began_before": bool | None,
        "is_open": bool | None,
        "utilization_ratio": float | None,
        "idle_gpu_hours": float | None,
    },
)

RunIdsRow = TypedDict(
    "RunIdsRow",
    {
        "said": int | None,
        "name": str | None,
        "value": str | None,
        "user_name": str | None,
        "processes": int | None,
        "last_seen": str | None,
    },
)

RunLengthsRow = TypedDict(
    "RunLengthsRow",
    {
        "kind": str | None,
        "gpus": int | None,
        "length_s": float | None,
        "open": bool | None,
        "jobs": int | None,
    },
)

SourcesRow = TypedDict(
    "SourcesRow",
    {
        "source": str | None,
        "last_ts": str | None,
        "last_duration_ms": float | None,
        "gpus": int | None,
        "reason": str | None,
    },
)

SpanRow = TypedDict(
    "SpanRow",
    {
        "first_ts": str | None,
        "last_ts": str | None,
        "complete_to": str | None,
        "nodes": int | None,
        "gpus": int | None,
        "holders": int | None,
        "samples": int | None,
    },
)

SpanRecord = TypedDict(
    "SpanRecord",
    {
        "first_ts": pd.Timestamp | None,
        "last_ts": pd.Timestamp | None,
        "complete_to": pd.Timestamp | None,
        "nodes": int | None,
        "gpus": int | None,
        "holders": int | None,
        "samples": int | None,
    },
)

SpokenRow = TypedDict(
    "SpokenRow",
    {
        "job": str | None,
        "at_ms": int | None,
        "rung": str | None,
        "reached": str | None,
        "until_ms": int | None,
        "by_user": str | None,
    },
)

StatesOverTimeRow = TypedDict(
    "StatesOverTimeRow",
    {
        "ts": str | None,
        "free_gpu_hours": float | None,
        "allocated_empty_gpu_hours": float | None,
        "held_idle_gpu_hours": float | None,
        "low_saturation_gpu_hours": float | None,
        "moderate_gpu_hours": float | None,
        "good_gpu_hours": float | None,
        "suspect_gpu_hours": float | None,
        "withheld_gpu_hours": float | None,
        "unknown_gpu_hours": float | None,
    },
)

SubmittedJobsRow = TypedDict(
    "SubmittedJobsRow",
    {
        "job": str | None,
        "user_name": str | None,
        "project": str | None,
        "job_name": str | None,
        "kind": str | None,
        "min_gpus": int | None,
        "max_gpus": int | None,
        "share": float | None,
        "memory_bytes": int | None,
        "gpu_models": str | None,
        "priority": int | None,
        "limit_s": float | None,
        "mobility": str | None,
        "preemptible": bool | None,
        "may_share": bool | None,
        "opted_out": str | None,
        "submitted_ms": int | None,
        "ended_ms": int | None,
        "memory_held_bytes": int | None,
        "memory_needed_bytes": int | None,
        "step_s": str | None,
        "resize_s": float | None,
    },
)

UnclearClaimsRow = TypedDict(
    "UnclearClaimsRow",
    {
        "node": str | None,
        "user_name": str | None,
        "pid": int | None,
        "process_name": str | None,
        "command": str | None,
        "reason": str | None,
        "from_ts": str | None,
        "to_ts": str | None,
    },
)

UnheldRow = TypedDict(
    "UnheldRow",
    {
        "why": str | None,
        "detail": str | None,
        "qos": str | None,
        "account": str | None,
        "gpu_hours": float | None,
    },
)

UnjudgedRow = TypedDict(
    "UnjudgedRow",
    {
        "uuid": str,
        "node": str,
        "gpu_index": int | None,
        "gpu_place": str | None,
        "model": str | None,
        "user_name": str | None,
        "project": str | None,
        "job": str | None,
        "job_name": str | None,
        "verdict": str,
        "kinds": str | None,
        "reason": str,
        "held_by": str | None,
        "as_of": str,
    },
)

UnjudgedPastsRow = TypedDict(
    "UnjudgedPastsRow",
    {
        "from_ts": str,
        "to_ts": str,
        "judged_to": str,
    },
)

UsageOverTimeRow = TypedDict(
    "UsageOverTimeRow",
    {
        "ts": str | None,
        "installed_gpus": float | None,
        "allocated_gpus": float | None,
        "used_gpus": float | None,
        "bound_used_gpus": float | None,
        "held_used_gpus": float | None,
        "held_unknown_gpus": float | None,
        "unknown_gpus": float | None,
        "utilization_ratio": float | None,
        "allocated_ratio": float | None,
    },
)

UseByHolderRow = TypedDict(
    "UseByHolderRow",
    {
        "ts": str | None,
        "user_name": str | None,
        "project": str | None,
        "job": str | None,
        "job_name": str | None,
        "gpu_utilization_ratio": float | None,
        "memory_used_bytes": int | None,
    },
)

UseOfJobsRow = TypedDict(
    "UseOfJobsRow",
    {
        "job": str,
        "ts": str,
        "utilization_ratio": float | None,
        "memory_used_max_ratio": float | None,
        "wasted_ratio": float | None,
    },
)

WaitedRow = TypedDict(
    "WaitedRow",
    {
        "key": str | None,
        "waited_gpu_hours": float | None,
        "beside_idle_gpu_hours": float | None,
        "beside_own_gpu_hours": float | None,
        "beside_free_gpu_hours": float | None,
    },
)

WaitedCausesRow = TypedDict(
    "WaitedCausesRow",
    {
        "cause": str | None,
        "reason": str | None,
        "qos": str | None,
        "account": str | None,
        "limit_met": str | None,
        "jobs": int | None,
        "waited_gpu_hours": float | None,
    },
)

WaitedHoldersRow = TypedDict(
    "WaitedHoldersRow",
    {
        "key": str | None,
        "user_name": str | None,
        "project": str | None,
        "idle_gpu_hours": float | None,
        "beside_gpu_hours": float | None,
    },
)

WasteRow = TypedDict(
    "WasteRow",
    {
        "held_gpu_hours": float,
        "wasted_gpu_hours": float,
        "allocated_empty_gpu_hours": float,
        "held_idle_gpu_hours": float,
        "low_saturation_gpu_hours": float,
        "bound_used_gpu_hours": float,
        "wasted_cost": float | None,
        "currency": str | None,
        "open_gpu_hours": float,
        "found_gpu_hours": float,
        "wasted_energy_kwh": float | None,
        "wasted_energy_known_ratio": float | None,
    },
)

class Rows(Protocol):
    @overload
    def __call__(self, name: Literal["accounted_runs"], **params: object) -> list[AccountedRunsRow]: ...
    @overload
    def __call__(self, name: Literal["accounted_use"], **params: object) -> list[AccountedUseRow]: ...
    @overload
    def __call__(self, name: Literal["activity"], **params: object) -> list[ActivityRow]: ...
    @overload
    def __call__(self, name: Literal["alerts"], **params: object) -> list[AlertsRow]: ...
    @overload
    def __call__(self, name: Literal["charged_alike"], **params: object) -> list[ChargedAlikeRow]: ...
    @overload
    def __call__(self, name: Literal["cluster_now"], **params: object) -> list[ClusterNowRow]: ...
    @overload
    def __call__(self, name: Literal["clusters_alike"], **params: object) -> list[ClustersAlikeRow]: ...
    @overload
    def __call__(self, name: Literal["consents"], **params: object) -> list[ConsentsRow]: ...
    @overload
    def __call__(self, name: Literal["data_origin"], **params: object) -> list[DataOriginRow]: ...
    @overload
    def __call__(self, name: Literal["events"], **params: object) -> list[EventsRow]: ...
    @overload
    def __call__(self, name: Literal["findings"], **params: object) -> list[FindingsRow]: ...
    @overload
    def __call__(self, name: Literal["findings_by_kind"], **params: object) -> list[FindingsByKindRow]: ...
    @overload
    def __call__(self, name: Literal["gaps"], **params: object) -> list[GapsRow]: ...
    @overload
    def __call__(self, name: Literal["given_back"], **params: object) -> list[GivenBackRow]: ...
    @overload
    def __call__(self, name: Literal["gpu_holders"], **params: object) -> list[GpuHoldersRow]: ...
    @overload
    def __call__(self, name: Literal["gpu_names"], **params: object) -> list[GpuNamesRow]: ...
    @overload
    def __call__(self, name: Literal["gpu_timeline"], **params: object) -> list[GpuTimelineRow]: ...
    @overload
    def __call__(self, name: Literal["gpus_now"], **params: object) -> list[GpusNowRow]: ...
    @overload
    def __call__(self, name: Literal["harvests"], **params: object) -> list[HarvestsRow]: ...
    @overload
    def __call__(self, name: Literal["heatmap"], **params: object) -> list[HeatmapRow]: ...
    @overload
    def __call__(self, name: Literal["heatmap_by_node"], **params: object) -> list[HeatmapByNodeRow]: ...
    @overload
    def __call__(self, name: Literal["idle_stretches"], **params: object) -> list[IdleStretchesRow]: ...
    @overload
    def __call__(self, name: Literal["intrusions"], **params: object) -> list[IntrusionsRow]: ...
    @overload
    def __call__(self, name: Literal["job_gpus"], **params: object) -> list[JobGpusRow]: ...
    @overload
    def __call__(self, name: Literal["job_timeline"], **params: object) -> list[JobTimelineRow]: ...
    @overload
    def __call__(self, name: Literal["jobs"], **params: object) -> list[JobsRow]: ...
    @overload
    def __call__(self, name: Literal["judgement"], **params: object) -> list[JudgementRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_account"], **params: object) -> list[LedgerByAccountRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_cluster"], **params: object) -> list[LedgerByClusterRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_day"], **params: object) -> list[LedgerByDayRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_framework"], **params: object) -> list[LedgerByFrameworkRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_gpu"], **params: object) -> list[LedgerByGpuRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_hour"], **params: object) -> list[LedgerByHourRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_job"], **params: object) -> list[LedgerByJobRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_model"], **params: object) -> list[LedgerByModelRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_node"], **params: object) -> list[LedgerByNodeRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_partition"], **params: object) -> list[LedgerByPartitionRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_project"], **params: object) -> list[LedgerByProjectRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_qos"], **params: object) -> list[LedgerByQosRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_state"], **params: object) -> list[LedgerByStateRow]: ...
    @overload
    def __call__(self, name: Literal["ledger_by_user"], **params: object) -> list[LedgerByUserRow]: ...
    @overload
    def __call__(self, name: Literal["manager_nodes"], **params: object) -> list[ManagerNodesRow]: ...
    @overload
    def __call__(self, name: Literal["manager_queue"], **params: object) -> list[ManagerQueueRow]: ...
    @overload
    def __call__(self, name: Literal["manager_runs"], **params: object) -> list[ManagerRunsRow]: ...
    @overload
    def __call__(self, name: Literal["marks"], **params: object) -> list[MarksRow]: ...
    @overload
    def __call__(self, name: Literal["measured_time"], **params: object) -> list[MeasuredTimeRow]: ...
    @overload
    def __call__(self, name: Literal["nodes"], **params: object) -> list[NodesRow]: ...
    @overload
    def __call__(self, name: Literal["options"], **params: object) -> list[OptionsRow]: ...
    @overload
    def __call__(self, name: Literal["pairs"], **params: object) -> list[PairsRow]: ...
    @overload
    def __call__(self, name: Literal["past_gpus"], **params: object) -> list[PastGpusRow]: ...
    @overload
    def __call__(self, name: Literal["past_holdings"], **params: object) -> list[PastHoldingsRow]: ...
    @overload
    def __call__(self, name: Literal["past_jobs"], **params: object) -> list[PastJobsRow]: ...
    @overload
    def __call__(self, name: Literal["patterns"], **params: object) -> list[PatternsRow]: ...
    @overload
    def __call__(self, name: Literal["people"], **params: object) -> list[PeopleRow]: ...
    @overload
    def __call__(self, name: Literal["processes_now"], **params: object) -> list[ProcessesNowRow]: ...
    @overload
    def __call__(self, name: Literal["project_use"], **params: object) -> list[ProjectUseRow]: ...
    @overload
    def __call__(self, name: Literal["projects"], **params: object) -> list[ProjectsRow]: ...
    @overload
    def __call__(self, name: Literal["recorded_jobs"], **params: object) -> list[RecordedJobsRow]: ...
    @overload
    def __call__(self, name: Literal["run_ids"], **params: object) -> list[RunIdsRow]: ...
    @overload
    def __call__(self, name: Literal["run_lengths"], **params: object) -> list[RunLengthsRow]: ...
    @overload
    def __call__(self, name: Literal["sources"], **params: object) -> list[SourcesRow]: ...
    @overload
    def __call__(self, name: Literal["span"], **params: object) -> list[SpanRow]: ...
    @overload
    def __call__(self, name: Literal["spoken"], **params: object) -> list[SpokenRow]: ...
    @overload
    def __call__(self, name: Literal["states_over_time"], **params: object) -> list[StatesOverTimeRow]: ...
    @overload
    def __call__(self, name: Literal["submitted_jobs"], **params: object) -> list[SubmittedJobsRow]: ...
    @overload
    def __call__(self, name: Literal["unclear_claims"], **params: object) -> list[UnclearClaimsRow]: ...
    @overload
    def __call__(self, name: Literal["unheld"], **params: object) -> list[UnheldRow]: ...
    @overload
    def __call__(self, name: Literal["unjudged"], **params: object) -> list[UnjudgedRow]: ...
    @overload
    def __call__(self, name: Literal["unjudged_pasts"], **params: object) -> list[UnjudgedPastsRow]: ...
    @overload
    def __call__(self, name: Literal["usage_over_time"], **params: object) -> list[UsageOverTimeRow]: ...
    @overload
    def __call__(self, name: Literal["use_by_holder"], **params: object) -> list[UseByHolderRow]: ...
    @overload
    def __call__(self, name: Literal["use_of_jobs"], **params: object) -> list[UseOfJobsRow]: ...
    @overload
    def __call__(self, name: Literal["waited"], **params: object) -> list[WaitedRow]: ...
    @overload
    def __call__(self, name: Literal["waited_causes"], **params: object) -> list[WaitedCausesRow]: ...
    @overload
    def __call__(self, name: Literal["waited_holders"], **params: object) -> list[WaitedHoldersRow]: ...
    @overload
    def __call__(self, name: Literal["waste"], **params: object) -> list[WasteRow]: ...
    @overload
    def __call__(self, name: str, **params: object) -> list[dict[str, object]]: ...

class RowsIfKept(Protocol):
    @overload
    def __call__(self, name: Literal["accounted_runs"], **params: object) -> list[AccountedRunsRow] | None: ...
    @overload
    def __call__(self, name: Literal["accounted_use"], **params: object) -> list[AccountedUseRow] | None: ...
    @overload
    def __call__(self, name: Literal["activity"], **params: object) -> list[ActivityRow] | None: ...
    @overload
    def __call__(self, name: Literal["alerts"], **params: object) -> list[AlertsRow] | None: ...
    @overload
    def __call__(self, name: Literal["charged_alike"], **params: object) -> list[ChargedAlikeRow] | None: ...
    @overload
    def __call__(self, name: Literal["cluster_now"], **params: object) -> list[ClusterNowRow] | None: ...
    @overload
    def __call__(self, name: Literal["clusters_alike"], **params: object) -> list[ClustersAlikeRow] | None: ...
    @overload
    def __call__(self, name: Literal["consents"], **params: object) -> list[ConsentsRow] | None: ...
    @overload
    def __call__(self, name: Literal["data_origin"], **params: object) -> list[DataOriginRow] | None: ...
    @overload
    def __call__(self, name: Literal["events"], **params: object) -> list[EventsRow] | None: ...
    @overload
    def __call__(self, name: Literal["findings"], **params: object) -> list[FindingsRow] | None: ...
    @overload
    def __call__(self, name: Literal["findings_by_kind"], **params: object) -> list[FindingsByKindRow] | None: ...
    @overload
    def __call__(self, name: Literal["gaps"], **params: object) -> list[GapsRow] | None: ...
    @overload
    def __call__(self, name: Literal["given_back"], **params: object) -> list[GivenBackRow] | None: ...
    @overload
    def __call__(self, name: Literal["gpu_holders"], **params: object) -> list[GpuHoldersRow] | None: ...
    @overload
    def __call__(self, name: Literal["gpu_names"], **params: object) -> list[GpuNamesRow] | None: ...
    @overload
    def __call__(self, name: Literal["gpu_timeline"], **params: object) -> list[GpuTimelineRow] | None: ...
    @overload
    def __call__(self, name: Literal["gpus_now"], **params: object) -> list[GpusNowRow] | None: ...
    @overload
    def __call__(self, name: Literal["harvests"], **params: object) -> list[HarvestsRow] | None: ...
    @overload
    def __call__(self, name: Literal["heatmap"], **params: object) -> list[HeatmapRow] | None: ...
    @overload
    def __call__(self, name: Literal["heatmap_by_node"], **params: object) -> list[HeatmapByNodeRow] | None: ...
    @overload
    def __call__(self, name: Literal["idle_stretches"], **params: object) -> list[IdleStretchesRow] | None: ...
    @overload
    def __call__(self, name: Literal["intrusions"], **params: object) -> list[IntrusionsRow] | None: ...
    @overload
    def __call__(self, name: Literal["job_gpus"], **params: object) -> list[JobGpusRow] | None: ...
    @overload
    def __call__(self, name: Literal["job_timeline"], **params: object) -> list[JobTimelineRow] | None: ...
    @overload
    def __call__(self, name: Literal["jobs"], **params: object) -> list[JobsRow] | None: ...
    @overload
    def __call__(self, name: Literal["judgement"], **params: object) -> list[JudgementRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_account"], **params: object) -> list[LedgerByAccountRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_cluster"], **params: object) -> list[LedgerByClusterRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_day"], **params: object) -> list[LedgerByDayRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_framework"], **params: object) -> list[LedgerByFrameworkRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_gpu"], **params: object) -> list[LedgerByGpuRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_hour"], **params: object) -> list[LedgerByHourRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_job"], **params: object) -> list[LedgerByJobRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_model"], **params: object) -> list[LedgerByModelRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_node"], **params: object) -> list[LedgerByNodeRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_partition"], **params: object) -> list[LedgerByPartitionRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_project"], **params: object) -> list[LedgerByProjectRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_qos"], **params: object) -> list[LedgerByQosRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_state"], **params: object) -> list[LedgerByStateRow] | None: ...
    @overload
    def __call__(self, name: Literal["ledger_by_user"], **params: object) -> list[LedgerByUserRow] | None: ...
    @overload
    def __call__(self, name: Literal["manager_nodes"], **params: object) -> list[ManagerNodesRow] | None: ...
    @overload
    def __call__(self, name: Literal["manager_queue"], **params: object) -> list[ManagerQueueRow] | None: ...
    @overload
    def __call__(self, name: Literal["manager_runs"], **params: object) -> list[ManagerRunsRow] | None: ...
    @overload
    def __call__(self, name: Literal["marks"], **params: object) -> list[MarksRow] | None: ...
    @overload
    def __call__(self, name: Literal["measured_time"], **params: object) -> list[MeasuredTimeRow] | None: ...
    @overload
    def __call__(self, name: Literal["nodes"], **params: object) -> list[NodesRow] | None: ...
    @overload
    def __call__(self, name: Literal["options"], **params: object) -> list[OptionsRow] | None: ...
    @overload
    def __call__(self, name: Literal["pairs"], **params: object) -> list[PairsRow] | None: ...
    @overload
    def __call__(self, name: Literal["past_gpus"], **params: object) -> list[PastGpusRow] | None: ...
    @overload
    def __call__(self, name: Literal["past_holdings"], **params: object) -> list[PastHoldingsRow] | None: ...
    @overload
    def __call__(self, name: Literal["past_jobs"], **params: object) -> list[PastJobsRow] | None: ...
    @overload
    def __call__(self, name: Literal["patterns"], **params: object) -> list[PatternsRow] | None: ...
    @overload
    def __call__(self, name: Literal["people"], **params: object) -> list[PeopleRow] | None: ...
    @overload
    def __call__(self, name: Literal["processes_now"], **params: object) -> list[ProcessesNowRow] | None: ...
    @overload
    def __call__(self, name: Literal["project_use"], **params: object) -> list[ProjectUseRow] | None: ...
    @overload
    def __call__(self, name: Literal["projects"], **params: object) -> list[ProjectsRow] | None: ...
    @overload
    def __call__(self, name: Literal["recorded_jobs"], **params: object) -> list[RecordedJobsRow] | None: ...
    @overload
    def __call__(self, name: Literal["run_ids"], **params: object) -> list[RunIdsRow] | None: ...
    @overload
    def __call__(self, name: Literal["run_lengths"], **params: object) -> list[RunLengthsRow] | None: ...
    @overload
    def __call__(self, name: Literal["sources"], **params: object) -> list[SourcesRow] | None: ...
    @overload
    def __call__(self, name: Literal["span"], **params: object) -> list[SpanRow] | None: ...
    @overload
    def __call__(self, name: Literal["spoken"], **params: object) -> list[SpokenRow] | None: ...
    @overload
    def __call__(self, name: Literal["states_over_time"], **params: object) -> list[StatesOverTimeRow] | None: ...
    @overload
    def __call__(self, name: Literal["submitted_jobs"], **params: object) -> list[SubmittedJobsRow] | None: ...
    @overload
    def __call__(self, name: Literal["unclear_claims"], **params: object) -> list[UnclearClaimsRow] | None: ...
    @overload
    def __call__(self, name: Literal["unheld"], **params: object) -> list[UnheldRow] | None: ...
    @overload
    def __call__(self, name: Literal["unjudged"], **params: object) -> list[UnjudgedRow] | None: ...
    @overload
    def __call__(self, name: Literal["unjudged_pasts"], **params: object) -> list[UnjudgedPastsRow] | None: ...
    @overload
    def __call__(self, name: Literal["usage_over_time"], **params: object) -> list[UsageOverTimeRow] | None: ...
    @overload
    def __call__(self, name: Literal["use_by_holder"], **params: object) -> list[UseByHolderRow] | None: ...
    @overload
    def __call__(self, name: Literal["use_of_jobs"], **params: object) -> list[UseOfJobsRow] | None: ...
    @overload
    def __call__(self, name: Literal["waited"], **params: object) -> list[WaitedRow] | None: ...
    @overload
    def __call__(self, name: Literal["waited_causes"], **params: object) -> list[WaitedCausesRow] | None: ...
    @overload
    def __call__(self, name: Literal["waited_holders"], **params: object) -> list[WaitedHoldersRow] | None: ...
    @overload
    def __call__(self, name: Literal["waste"], **params: object) -> list[WasteRow] | None: ...
    @overload
    def __call__(self, name: str, **params: object) -> list[dict[str, object]] | None: ...
