"""Slurm's accounting as text: headers, records, runs; names that try to be something else."""

import base64
import gzip
import json
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.managers.slurm.jobstats import GpuMean, means_of
from collector.managers.slurm.sacct_text import (
    FIELDS,
    AccountedRun,
    NotAccounting,
    Refused,
    header_of,
    is_step,
    records,
    run_of,
)

MARK = "@0123456789abcdef@"
ROW = dict.fromkeys(FIELDS, "") | {
    "JobIDRaw": "9",
    "JobID": "4_0",
    "User": "ann",
    "UID": "1000",
    "Account": "vision",
    "Partition": "main",
    "QOS": "normal",
    "State": "COMPLETED",
    "Submit": "1764075842",
    "Start": "1764075900",
    "End": "1764079500",
    "AllocTRES": "billing=1,cpu=1,gres/gpu:h200=2,gres/gpu=2,mem=100M,node=1",
    "ReqTRES": "billing=1,cpu=1,gres/gpu=2,mem=100M,node=1",
    "ExitCode": "0:0",
    "TimelimitRaw": "60",
    "JobName": "train",
    "NodeList": "n1",
    "Cluster": "lab",
}


def text(*rows: dict[str, str], mark: str = MARK) -> str:
    lines = [mark.join(FIELDS), *(mark.join(row[name] for name in FIELDS) for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def read(told: str) -> list[dict[str, str] | Refused]:
    lines = iter(told.splitlines(keepends=True))
    header = header_of(next(lines))
    return [
        cells if isinstance(cells, Refused) else dict(zip(header.columns, cells, strict=True))
        for _, cells in records(header, lines)
    ]


def run(**changes: str) -> AccountedRun:
    result = run_of(ROW | changes, UTC)
    assert isinstance(result, AccountedRun), result
    return result


def comment(told: object) -> str:
    return "JS1:" + base64.b64encode(gzip.compress(json.dumps(told).encode())).decode()


def test_a_run_as_sacct_writes_it() -> None:
    seen = run()
    assert (seen.number, seen.shown_id, seen.user, seen.project) == ("9", "4_0", "ann", "vision")
    assert (seen.gpus, seen.gpu_types, seen.nodes, seen.asked_gpus, seen.limit_s) == (
        2,
        "h200",
        ("n1",),
        2,
        3600,
    )
    assert (seen.started_ms, seen.ended_ms) == (1_764_075_900_000, 1_764_079_500_000)


@pytest.mark.parametrize(
    ("tres", "gpus", "types", "shards"),
    [
        ("cpu=1,gres/gpu=2,node=1", 2, "", 0),
        ("gres/gpu:a100=2", 2, "a100", 0),
        ("gres/gpu:a100=2,gres/gpu:h100=1,gres/gpu=3", 3, "a100,h100", 0),
        ("gres/gpu:3090=2,gres/gpu=2", 2, "3090", 0),
        ("gres/gpu:a100=2,gres/gpu:h100=1", 3, "a100,h100", 0),
        ("billing=1,cpu=1,gres/shard=2,mem=100M,node=1", 0, "", 2),
        ("billing=3,cpu=3", 0, "", 0),
        ("", 0, "", 0),
        ("gres/gpumem=80G,gres/gpuutil=50", 0, "", 0),
    ],
)
def test_gpus_of_an_allocation(tres: str, gpus: int, types: str, shards: int) -> None:
    seen = run(AllocTRES=tres)
    assert (seen.gpus, seen.gpu_types, seen.shards) == (gpus, types, shards)


@pytest.mark.parametrize(
    "state", ["CANCELLED by 1000", "NODE_FAIL", "OUT_OF_MEMORY", "REQUEUED", "PREEMPTED"]
)
def test_ends_keep_slurms_words(state: str) -> None:
    assert run(State=state).state_name == state


@pytest.mark.parametrize(
    "changes",
    [
        {"End": "Unknown", "State": "RUNNING"},
        {"End": "Unknown", "State": "COMPLETED"},
        {"State": "SUSPENDED"},
    ],
)
def test_what_is_not_over_is_no_run_yet(changes: dict[str, str]) -> None:
    assert run_of(ROW | changes, UTC) is None


def test_a_job_that_never_began_waited() -> None:
    seen = run(Start="None", State="CANCELLED by 0", AllocTRES="", NodeList="None assigned")
    assert (seen.started_ms, seen.gpus, seen.nodes, seen.asked_gpus) == (None, 0, (), 2)
    later = run(Start="1764079999", State="CANCELLED", AllocTRES="", NodeList="None assigned")
    assert later.started_ms is None


def test_local_times_are_the_zones_and_the_hour_that_comes_twice_goes_forward() -> None:
    zone = ZoneInfo("Europe/Berlin")
    told = {"Submit": "2026-10-25T01:00:00", "Start": "2026-10-25T02:50:00", "End": "2026-10-25T02:10:00"}
    seen = run_of(ROW | told, zone)
    assert isinstance(seen, AccountedRun) and seen.started_ms is not None
    assert seen.ended_ms - seen.started_ms == 20 * 60_000
    summer = run_of(ROW | dict.fromkeys(("Submit", "Start", "End"), "2026-07-01T12:00:00"), zone)
    assert isinstance(summer, AccountedRun) and summer.ended_ms == 1_782_900_000_000


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"JobIDRaw": "n1"}, "no number"),
        ({"JobIDRaw": "9" * 5000}, "no number"),
        ({"State": "speech"}, "no state"),
        ({"Start": "2026-13-01T00:00:00"}, "Start is no time"),
        ({"End": "9" * 5000}, "End is no time"),
        ({"End": "1764075899"}, "ends before"),
        ({"Submit": "Unknown"}, "no time of submission"),
    ],
)
def test_what_is_no_run_is_refused_with_a_reason(changes: dict[str, str], why: str) -> None:
    reason = run_of(ROW | changes, UTC)
    assert isinstance(reason, str) and why in reason


@pytest.mark.parametrize("raw", ["9.batch", "9.extern", "9.0"])
def test_steps_are_no_runs(raw: str) -> None:
    assert is_step(ROW | {"JobIDRaw": raw}) and not is_step(ROW)


def test_a_heterogeneous_jobs_part_has_its_own_number() -> None:
    assert run(JobIDRaw="10", JobID="9+1").number == "10"


FORGED = "x\n99|4_0|bob|1|speech|main|normal|COMPLETED|1|2|3|gres/gpu=8||||||x||n1|lab"


def test_between_marks_a_name_can_not_be_a_record() -> None:
    (seen,) = read(text(ROW | {"JobName": FORGED}))
    assert isinstance(seen, dict) and (seen["JobName"], seen["NodeList"]) == (FORGED, "n1")


@given(st.text(alphabet=st.sampled_from("a|\n\r@.,=0"), max_size=40))
def test_whatever_a_name_holds_the_next_record_is_whole(name: str) -> None:
    told = text(ROW | {"JobName": name}, ROW | {"JobIDRaw": "10"}).split("\n")
    header = header_of(told[0])
    seen = [cells for _, cells in records(header, (f"{line}\n" for line in told[1:]))]
    assert [cells[0] for cells in seen if not isinstance(cells, Refused)] == ["9", "10"]


def test_between_pipes_a_name_with_pipes_leaves_the_other_cells_alone() -> None:
    (seen,) = read(text(ROW | {"JobName": "a|b||c"}, mark="|"))
    assert isinstance(seen, dict)
    assert (seen["JobName"], seen["User"], seen["NodeList"]) == ("a|b||c", "ann", "n1")


def test_a_cut_line_is_refused_and_the_others_are_read() -> None:
    whole = text(ROW, ROW | {"JobIDRaw": "10"}, mark="|")
    cut = whole[: len(whole) - 30]
    first, second = read(cut)
    assert isinstance(first, dict) and isinstance(second, Refused) and "cut" in second.reason
    marked = text(ROW, ROW | {"JobIDRaw": "10"})
    assert [isinstance(each, Refused) for each in read(marked[: len(marked) - 60])] == [False, True]


def test_parsable_with_a_delimiter_at_the_end_is_read_too() -> None:
    told = "".join(f"{line}|\n" for line in text(ROW, mark="|").splitlines())
    (seen,) = read(told)
    assert isinstance(seen, dict) and seen["Cluster"] == "lab"


@pytest.mark.parametrize("first", ["", "9|4_0|ann", "JobIDRaw", "JobIDRaw|JobName|User", "sacct: error: no"])
def test_a_text_without_a_header_says_which_command_makes_one(first: str) -> None:
    with pytest.raises(NotAccounting, match="--format="):
        header_of(first)


def test_other_columns_than_ours_do_no_harm() -> None:
    header = header_of("JobIDRaw|AveCPU|User|Account|State|Submit|Start|End|AllocTRES|NodeList|Cluster")
    assert (header.delimiter, header.columns[1]) == ("|", "AveCPU")


MEANS = {
    "gpus": 2,
    "nodes": {
        "n1": {
            "gpu_utilization": {"0": 98.6, "1": 0},
            "gpu_used_memory": {"0": 8 << 30, "1": 0},
            "gpu_total_memory": {"0": 80 << 30, "1": 80 << 30},
            "total_time": 3.0,
        }
    },
}


def test_means_of_each_gpu() -> None:
    first, second = means_of(comment(MEANS)) or ()
    assert first == GpuMean(
        node="n1", gpu="0", utilization_ratio=0.986, memory_used_bytes=8 << 30, memory_total_bytes=80 << 30
    )
    assert second.utilization_ratio == 0.0


@pytest.mark.parametrize("told", ["", "JS1:Short", "JS1:None", "see ticket 4"])
def test_no_means(told: str) -> None:
    assert means_of(told) == ()


@pytest.mark.parametrize(
    "told",
    [
        "JS1:",
        "JS1:!!!",
        "JS1:äöü",
        "JS1:" + base64.b64encode(b"no gzip").decode(),
        comment(MEANS)[:-12],
        comment(MEANS).lower(),
        comment([]),
        comment({"nodes": {"n1": 3}}),
        "JS1:" + base64.b64encode(gzip.compress(b"[" * 200_000)).decode(),
        "JS1:" + base64.b64encode(gzip.compress(b" " * (64 << 20))).decode(),
        "JS1:" + "A" * (1 << 20),
    ],
    ids=[
        "empty",
        "no-base64",
        "no-ascii",
        "no-gzip",
        "cut",
        "lower-case",
        "list",
        "number",
        "deep",
        "bomb",
        "long",
    ],
)
def test_a_comment_that_can_not_be_read_says_nothing(told: str) -> None:
    assert means_of(told) is None
    seen = run(AdminComment=told)
    assert seen.means == () and seen.unreadable_comment


@pytest.mark.parametrize("percent", ["98", True, -1, 101, 1e400, float("nan"), None, 10**400])
def test_what_is_no_percentage_is_not_measured(percent: object) -> None:
    seen = means_of(comment({"nodes": {"n1": {"gpu_utilization": {"0": percent}}}}))
    assert seen is not None and [mean.utilization_ratio for mean in seen] == [None]
