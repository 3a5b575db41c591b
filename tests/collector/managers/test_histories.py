"""Job histories as other programs write them: each format's records after its manual, times added up by hand.

Sources: sacct(1); PBS Professional's Reference Guide, "Accounting Log"; IBM's page of lsb.acct; Feitelson's
Standard Workload Format 2.2; Kueue's Workload v1beta1; Ray's JobDetails; the export of runs of W&B.
"""

import gzip
from pathlib import Path

import pytest

from collector.managers.histories.model import HistoryError, LeftOut, PastJob, Record, Unreadable
from collector.managers.histories.read import HistoryFormat, opened, recognized
from collector.managers.histories.values import length_s, moment_s

AT = 1_790_841_600.0
"""2026-10-01T08:00:00Z: 20,727 days of 86,400 s since 1970, and eight hours."""


def read(
    folder: Path, text: str, name: str = "jobs.txt", format: HistoryFormat | None = None
) -> list[Record]:
    path = folder / name
    path.write_text(text)
    with opened(path, format) as history:
        return [record for _, record in history.records]


def one(folder: Path, text: str, name: str = "jobs.txt") -> PastJob:
    (record,) = read(folder, text, name)
    assert isinstance(record, PastJob), record
    return record


def times(job: PastJob) -> tuple[float, float, float]:
    return job.submitted_s - AT, job.started_s - AT, job.ended_s - AT


SACCT = "JobID|User|Account|Submit|Start|End|State|AllocTRES|ReqTRES\n"


def sacct(*, key: str = "7", state: str = "COMPLETED", start: str = "2026-10-01T08:05:00",
          end: str = "2026-10-01T10:05:00", tres: str = "gres/gpu=4", asked: str = "") -> str:  # fmt: skip
    return f"{key}|ann|vision|2026-10-01T08:00:00|{start}|{end}|{state}|{tres}|{asked}\n"


def test_a_run_of_slurm_is_as_long_as_it_ran(tmp_path: Path) -> None:
    job = one(tmp_path, SACCT + sacct(tres="billing=8,gres/gpu:a100=4,gres/gpu=4"))
    assert (job.key, job.user, job.project, job.gpus) == ("7", "ann", "vision", 4)
    assert times(job) == (0, 300, 7500)
    assert job.gpu_models == ()  # what it got, not what it asked for


def test_a_model_that_was_asked_for_is_a_wish(tmp_path: Path) -> None:
    job = one(tmp_path, SACCT + sacct(tres="gres/gpu:a100=4", asked="gres/gpu:a100=4"))
    assert job.gpu_models == ("a100",)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (sacct(state="RUNNING", end="Unknown"), "not over"),
        (sacct(state="PENDING", start="Unknown", end="Unknown", tres="", asked="gres/gpu=4"), "not over"),
        (sacct(state="CANCELLED by 1001", start="None", tres="", asked="gres/gpu=4"), "never started"),
        (sacct(state="CANCELLED", end="2026-10-01T08:01:00", tres="", asked="gres/gpu=4"), "never started"),
        (sacct(key="7.batch"), "steps"),
        (sacct(tres="cpu=8"), "no GPU"),
        (sacct(tres="gres/shard=2"), "shares"),
        (sacct(tres="gres/gpu:a100_1g.10gb=1,gres/gpu=1"), "instances of MIG"),
    ],
)
def test_what_is_no_run_on_gpus_is_left_out_with_its_reason(tmp_path: Path, line: str, reason: str) -> None:
    (record,) = read(tmp_path, SACCT + line)
    assert isinstance(record, LeftOut)
    assert reason in record.reason


@pytest.mark.parametrize(
    "line",
    [
        sacct(start="yesterday"),
        sacct(end="2026-10-01T08:00:00"),
        "8|ann|vision\n",
        sacct(end="9999999999999"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path: Path, line: str) -> None:
    first, second = read(tmp_path, SACCT + line + sacct(key="9"))
    assert isinstance(first, Unreadable)
    assert isinstance(second, PastJob)


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"jobs\.txt: the text has no column AllocTRES"):
        read(tmp_path, "JobID|User|Submit|Start|End|State\n7|ann|2026-10-01T08:00:00|||\n")


def test_slurms_json_of_either_age(tmp_path: Path) -> None:
    tres = '{"allocated":[{"type":"cpu","name":"","count":8},{"type":"gres","name":"gpu:a100","count":4}]}'
    when = f'{{"submission":{AT:.0f},"start":{AT + 300:.0f},"end":{AT + 7500:.0f}}}'
    old = (
        f'{{"jobs":[{{"job_id":7,"user":"ann","account":"vision","time":{when},"state":{{"current":"COMPLETED"}},'
        f'"array":{{"job_id":5,"task_id":2}},"tres":{tres}}}]}}'
    )
    new = old.replace('"COMPLETED"', '["COMPLETED"]').replace(
        '"task_id":2', '"task_id":{"set":true,"infinite":false,"number":2}'
    )
    for text in (old, new):
        job = one(tmp_path, text, "jobs.json")
        assert (job.key, job.user, job.project, job.gpus) == ("5_2", "ann", "vision", 4)
        assert times(job) == (0, 300, 7500)
    alone = new.replace('"task_id":{"set":true', '"task_id":{"set":false').replace('"job_id":5', '"job_id":0')
    assert one(tmp_path, alone, "jobs.json").key == "7"


PBS = (
    "10/01/2026 10:05:00;{kind};12[3].head;user=ann group=lab project=_pbs_project_default jobname=train "
    f"ctime={AT:.0f} qtime={AT:.0f} etime={AT:.0f} start={AT + 300:.0f} exec_host=n0/0*8 "
    "exec_vnode=(n0:ncpus=8:ngpus=1)+(n1:ncpus=8:ngpus=2) {asked} "
    f"end={AT + 7500:.0f} Exit_status=0\n"
)


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ("Resource_List.ngpus=6 Resource_List.select=2:ncpus=8:ngpus=3", 6),  # the sum over the job, told
        ("Resource_List.select=2:ncpus=8:ngpus=3+1:ncpus=1:ngpus=2", 8),  # 2 chunks of 3, and one of 2
        ("", 3),  # what it got
    ],
)
def test_an_end_in_pbs_has_the_gpus_of_all_its_chunks(tmp_path: Path, asked: str, gpus: int) -> None:
    job = one(tmp_path, PBS.format(kind="E", asked=asked))
    assert (job.key, job.user, job.project, job.name, job.gpus) == ("12[3].head", "ann", "lab", "train", gpus)
    assert times(job) == (0, 300, 7500)


def test_other_records_of_pbs_are_no_jobs(tmp_path: Path) -> None:
    records = read(tmp_path, PBS.format(kind="S", asked="") + PBS.format(kind="E", asked="") + "noise\n")
    assert [type(record) for record in records] == [LeftOut, PastJob, Unreadable]


def lsf(demand: str, paths: str = '"" "" "" "" "1759.job"') -> str:
    return (
        f'"JOB_FINISH" "10.1" {AT + 7500:.0f} 1001 1000 33554434 4 {AT:.0f} 0 0 {AT + 300:.0f} "ann" "gpu" '
        f'"{demand}" "" "" "h1" {paths} 1 "gpuhosts" 4 "n0" "n0" "n1" "n1" 64 500.0 "a ""b""" "run"\n'
    )


@pytest.mark.parametrize("paths", ['"" "" "" "" "1759.job"', '"" "a b" "" ""'])
def test_an_end_in_lsf_has_its_gpus_a_host(tmp_path: Path, paths: str) -> None:
    job = one(tmp_path, lsf("select[type==any] rusage[ngpus_physical=2.00:mem=4]", paths))
    assert (job.key, job.user, job.project, job.gpus) == ("1001", "ann", "gpu", 4)
    assert times(job) == (0, 300, 7500)


def test_gpus_that_lsf_does_not_tell_are_not_made_up_from_its_slots(tmp_path: Path) -> None:
    (record,) = read(tmp_path, lsf("select[type==any]"))
    assert isinstance(record, LeftOut)
    assert "ngpus_physical" in record.reason


def test_the_standard_workload_format_counts_processors(tmp_path: Path) -> None:
    heading = "; Version: 2.2\n; MaxNodes: 8\n"
    ran = "1 50 10 3600 4 -1 -1 8 3600 -1 1 3 1 -1 1 -1 -1 -1\n"
    asked = "2 60 -1 100 -1 -1 -1 8 3600 -1 1 4 -1 -1 1 -1 -1 -1\n"
    cancelled = "3 60 -1 -1 -1 -1 -1 8 3600 -1 5 4 1 -1 1 -1 -1 -1\n"
    first, second, third, fourth = read(tmp_path, heading + ran + asked + cancelled + "4 5\n")
    assert isinstance(first, PastJob)
    assert (first.gpus, first.submitted_s, first.started_s, first.ended_s) == (4, 50, 60, 3660)
    assert (first.user, first.project) == ("user 3", "group 1")
    assert isinstance(second, PastJob)
    assert (second.gpus, second.ended_s - second.started_s, second.project) == (8, 100, None)
    assert isinstance(third, LeftOut)
    assert isinstance(fourth, Unreadable)


def workload(resources: str, conditions: str) -> str:
    return (
        '{"items":[{"kind":"Workload","metadata":{"name":"job-a","namespace":"team-a",'
        '"creationTimestamp":"2026-10-01T08:00:00Z"},"spec":{"podSets":[{"count":2,"template":{"spec":'
        f'{{"initContainers":[{{"resources":{{"limits":{{"nvidia.com/gpu":1}}}}}}],"containers":[{resources}]}}}}}}]}},'
        f'"status":{{"conditions":[{conditions}]}}}}]}}'
    )


ADMITTED = '{"type":"QuotaReserved","status":"True","lastTransitionTime":"2026-10-01T08:05:00Z"}'
FINISHED = ADMITTED + ',{"type":"Finished","status":"True","lastTransitionTime":"2026-10-01T10:05:00Z"}'
TWO_CONTAINERS = (
    '{"resources":{"requests":{"nvidia.com/gpu":"3","cpu":"500m"}}},'
    '{"resources":{"limits":{"nvidia.com/gpu":"1"}}}'
)


def test_a_workload_of_kueue_has_the_gpus_of_all_its_pods(tmp_path: Path) -> None:
    job = one(tmp_path, workload(TWO_CONTAINERS, FINISHED), "workloads.json")
    assert (job.key, job.project, job.gpus) == ("team-a/job-a", "team-a", 8)  # 2 pods of 3 + 1
    assert times(job) == (0, 300, 7500)


@pytest.mark.parametrize(
    ("resources", "conditions", "reason"),
    [
        (TWO_CONTAINERS, ADMITTED, "not over"),
        (TWO_CONTAINERS, "", "never started"),
    ],
)
def test_a_workload_that_did_not_run_to_its_end(
    tmp_path: Path, resources: str, conditions: str, reason: str
) -> None:
    (record,) = read(tmp_path, workload(resources, conditions), "workloads.json")
    assert isinstance(record, LeftOut)
    assert reason in record.reason


def test_rays_list_has_the_gpus_of_entry_points(tmp_path: Path) -> None:
    def entry(gpus: str, end: str) -> str:
        return (
            f'{{"submission_id":"raysubmit_1","start_time":{AT * 1000:.0f},"end_time":{end},'
            f'"entrypoint_num_gpus":{gpus}}}'
        )

    over = f"{(AT + 60) * 1000:.0f}"
    entries = [("2", over), ("0.5", over), ("null", over), ("1", "null"), ("1.5", over)]
    text = f"[{','.join(entry(*each) for each in entries)}]"
    whole, half, none, running, bad = read(tmp_path, text)
    assert isinstance(whole, PastJob)
    assert isinstance(half, PastJob)
    assert (whole.gpus, half.gpus, times(whole)) == (2, 0.5, (0, 0, 60))
    assert isinstance(none, LeftOut)
    assert isinstance(running, LeftOut)
    assert isinstance(bad, Unreadable)


def test_a_table_is_known_by_what_its_columns_are_called(tmp_path: Path) -> None:
    job = one(tmp_path, "Job ID,User,Submit Time,Start Time,End Time,Num GPUs\nx,ann,0,60,3660,4\n")
    assert (job.key, job.user, job.gpus) == ("x", "ann", 4)
    assert (job.submitted_s, job.started_s, job.ended_s) == (0, 60, 3660)


def test_a_table_says_which_jobs_had_to_lie_on_one_node(tmp_path: Path) -> None:
    text = "submitted,duration,gpus,topology\n0,60,4,Node\n0,60,4,\n0,60,4,rack\n"
    first, second, third = read(tmp_path, text)
    assert isinstance(first, PastJob) and first.topology == "node"
    assert isinstance(second, PastJob) and second.topology == "any"
    assert isinstance(third, Unreadable) and "'rack': it is one of node, prefer-node, any" in third.reason


def test_an_export_of_runs_is_a_table(tmp_path: Path) -> None:
    text = (
        "Name,State,Created,Runtime,User,GPU Count,GPU Type\n"
        "fine-river-1,finished,2026-10-01T08:00:00.000Z,7200,ann,4,NVIDIA A100\n"
        "new-sun-2,running,2026-10-01T08:00:00.000Z,7200,ann,4,NVIDIA A100\n"
    )
    first, second = read(tmp_path, text)
    assert isinstance(first, PastJob)
    assert (times(first), first.gpu_models) == ((0, 0, 7200), ("NVIDIA A100",))
    assert isinstance(second, LeftOut)


def test_a_mapping_beside_a_table_names_its_columns(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt.toml").write_text('gpus = "cards"\nlength = "took"\nsubmitted = "when"\n')
    job = one(tmp_path, "when,took,cards\n2026-10-01T08:00:00,1-02:00:00,8\n")
    assert (job.key, job.gpus, times(job)) == ("line 2", 8, (0, 0, 93_600))


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ('gpu = "cards"', "did you mean gpus"),
        ('gpus = "card"', "no such column"),
        ("gpus = 3", "each line names a column"),
        ("gpus = ", "Invalid value"),
    ],
)
def test_a_mapping_that_fits_nothing_is_refused(tmp_path: Path, mapping: str, message: str) -> None:
    (tmp_path / "jobs.txt.toml").write_text(mapping)
    with pytest.raises(HistoryError, match=message):
        read(tmp_path, "when,took,cards\n0,5,8\n")


def test_a_table_without_a_length_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(
        HistoryError, match="lacks length, or both started and ended; its columns are job, gpus, sub"
    ):
        read(tmp_path, "job,gpus,submitted\na,1,0\n")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3600", 3600), ("90.5", 90.5), ("04:05", 245), ("03:04:05", 11_045), ("2-03:04:05", 183_845),
     ("1-02", 93_600), ("1-02:30", 95_400), ("Unknown", None), ("", None)],
)  # fmt: skip
def test_lengths_are_read_as_slurm_writes_them(text: str, seconds: float | None) -> None:
    assert length_s(text, "Elapsed") == seconds


@pytest.mark.parametrize("text", ["a day", "1:2:3:4", "-5", "1e9"])
def test_other_lengths_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Elapsed is"):
        length_s(text, "Elapsed")


@pytest.mark.parametrize("text", ["10/01/2026 08:00", "nan", "-1", "1790841600000"])
def test_a_time_that_could_be_two_or_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Submit is"):
        moment_s(text, "Submit")


def test_a_time_with_a_zone_is_in_that_zone() -> None:
    assert moment_s("2026-10-01T10:00:00+02:00", "Submit") == AT
    assert moment_s("2026-10-01T08:00:00Z", "Submit") == AT
    assert moment_s("2026-10-01 08:00:00", "Submit") == AT


def test_a_packed_file_is_read_and_a_cut_one_is_said(tmp_path: Path) -> None:
    path = tmp_path / "jobs.anything"
    whole = gzip.compress((SACCT + sacct()).encode())
    path.write_bytes(whole)
    with opened(path) as history:
        assert history.format is HistoryFormat.SACCT
        assert len(list(history.records)) == 1
    path.write_bytes(whole[:-10])
    with pytest.raises(HistoryError, match="cut or damaged"), opened(path) as history:
        list(history.records)


@pytest.mark.parametrize(
    "text", ["", "hello\n", "\x00\x01\x02", "1,2,3\n4,5,6\n", '{"a": 1}', "[1, {}, null]", "{"]
)
def test_what_is_no_history_says_so(tmp_path: Path, text: str) -> None:
    try:
        records = read(tmp_path, text)
    except HistoryError as error:
        assert "jobs.txt" in str(error)
    else:
        assert records
        assert all(isinstance(record, Unreadable | LeftOut) for record in records)


def test_a_missing_file_and_a_folder_say_so(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(HistoryError, match="reading"), opened(path):
            pass


def test_a_heading_without_rows_is_a_table() -> None:
    assert recognized("job,gpus,submitted,length\n") is HistoryFormat.TABLE
