"""Pods, leases, projects, and what a job's processes say of it."""

import grp
import os
import pwd

import pytest

from collector.inventory.holders import (
    claimed_by,
    holder_of,
    is_of,
    job_among,
    job_of,
    person_behind,
    users_of,
)
from collector.inventory.kubernetes import names_process, pod_holder
from collector.inventory.leases import Lease, LeaseSource
from collector.inventory.projects import Projects, project_lookup, project_of, unix_groups
from collector.model import (
    ClaimSource,
    GpuUuid,
    Holder,
    JobId,
    JobKind,
    NodeName,
    Process,
    ProcessKey,
    Unavailable,
)
from collector.reading import Reading

NODE = NodeName("gpu1")
KEY = ProcessKey(node=NODE, pid=71, started_ms=5)
HEAD = ProcessKey(node=NODE, pid=70, started_ms=4)
CONTAINER = "0123456789abcdef" * 4
POD = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"


@pytest.mark.parametrize(
    ("process", "job"),
    [
        (Process(key=KEY, tree=HEAD, slurm_job="8", container=CONTAINER), "slurm:8"),
        (Process(key=KEY, tree=HEAD, pod=POD, container=CONTAINER), f"pod:{POD}"),
        (Process(key=KEY, tree=HEAD, notebook="ab", container=CONTAINER), "pid:gpu1/70@4"),
        (Process(key=KEY, tree=HEAD, container=CONTAINER), "container:0123456789ab"),
        (Process(key=KEY, tree=HEAD, user="ann", container=CONTAINER), "container:ann/0123456789ab"),
        (Process(key=KEY, tree=HEAD, container="c1"), "container:c1"),
        (Process(key=KEY, tree=HEAD, environment=(("SLURM_JOB_ID", "9"),)), "pid:gpu1/70@4"),
        (Process(key=KEY, tree=HEAD), "pid:gpu1/70@4"),
        (Process(key=KEY), None),
    ],
)
def test_the_widest_grant_names_the_job(process: Process, job: str | None) -> None:
    assert job_of(process) == job


def test_every_name_of_a_process_is_known() -> None:
    process = Process(
        key=KEY,
        tree=HEAD,
        container=CONTAINER,
        environment=(("FALLOW_JOB", "night-run"), ("SLURM_JOB_ID", "9")),
    )
    assert claimed_by(process) == ("night-run", "container:0123456789ab", "slurm:9", "pid:gpu1/70@4")


def test_a_uid_in_a_container_is_not_a_person_and_neither_is_its_own_word() -> None:
    assert person_behind(Process(key=KEY, uid=1000)) == "uid-1000"
    assert person_behind(Process(key=KEY, uid=1000, user="ann")) == "ann"
    assert person_behind(Process(key=KEY, uid=1000, container=CONTAINER)) is None
    hub = Process(key=KEY, uid=1000, container=CONTAINER, environment=(("JUPYTERHUB_USER", "bob"),))
    assert person_behind(hub) is None
    outside = Process(key=KEY, uid=1000, user="ann", environment=(("JUPYTERHUB_USER", "bob"),))
    assert person_behind(outside) == "ann"
    assert person_behind(Process(key=KEY)) is None


def test_what_was_said_of_a_job_goes_before_what_its_processes_show() -> None:
    said = Holder(job=JobId("slurm:8"), user="ann", project="vision", name="train", kind=JobKind.BATCH)
    processes = [
        Process(
            key=KEY,
            user="ann",
            command="python a.py",
            frameworks=("PyTorch", "NCCL"),
            kind=JobKind.INTERACTIVE,
        )
    ]
    found = holder_of(said.job, [said], processes, lambda user: "other")
    assert (found.project, found.name, found.kind) == ("vision", "train", JobKind.BATCH)
    assert (found.framework, found.command) == ("PyTorch", "python a.py")


def test_a_notebook_in_a_batch_job_is_interactive() -> None:
    said = Holder(job=JobId("slurm:8"), kind=JobKind.BATCH)
    found = holder_of(said.job, [said], [Process(key=KEY, notebook="ab")], lambda user: None)
    assert found.kind is JobKind.INTERACTIVE


def test_the_framework_of_most_processes_is_the_job_s() -> None:
    def process(pid: int, *frameworks: str) -> Process:
        return Process(key=ProcessKey(node=NODE, pid=pid, started_ms=1), frameworks=frameworks)

    own = [process(1, "NCCL"), process(2, "PyTorch", "NCCL"), process(3, "PyTorch"), process(4)]
    assert holder_of(JobId("j"), [], own, lambda user: None).framework == "PyTorch"


def test_processes_of_two_people_make_nobody_the_holder() -> None:
    own = [Process(key=KEY, user="ann"), Process(key=HEAD, user="bob")]
    found = holder_of(JobId("j"), [], own, lambda user: "p")
    assert (found.user, found.project) == (None, None)


@pytest.mark.parametrize(
    ("command", "environment", "name"),
    [
        ("/env/bin/python -u /home/ann/train.py --lr 1", (), "train.py"),
        ("python -m fairseq.train data", (), "fairseq.train"),
        ("/opt/bin/gmx mdrun", (), "gmx"),
        (
            "python -m ipykernel_launcher -f x.json",
            (("JPY_SESSION_NAME", "/home/ann/eda.ipynb"),),
            "eda.ipynb",
        ),
        (None, (), "proc"),
    ],
)
def test_a_job_without_a_name_is_called_after_what_it_runs(
    command: str | None, environment: tuple[tuple[str, str], ...], name: str
) -> None:
    own = [Process(key=KEY, name="proc", command=command, environment=environment)]
    assert holder_of(JobId("j"), [], own, lambda user: None).name == name


def test_a_pod_s_namespace_is_its_project_and_its_person_unknown() -> None:
    assert pod_holder("vision", "train-0") == Holder(
        job=JobId("pod:vision/train-0"), project="vision", name="train-0"
    )
    assert pod_holder("", "x").job == "pod:default/x"
    assert pod_holder("ann-ns", "x", "main", {"ann-ns": "ann"}) == Holder(
        job=JobId("pod:ann-ns/x"), user="ann", project="ann-ns", name="x/main"
    )


@pytest.mark.parametrize(
    ("environment", "fits"),
    [
        ({"HOSTNAME": "train-0"}, True),
        ({"HOSTNAME": "train-1"}, False),
        ({"POD_NAME": "train-0", "HOSTNAME": "gpu1"}, True),
        ({"HOSTNAME": "train-0", "POD_NAMESPACE": "other"}, False),
        ({}, False),
    ],
)
def test_a_pod_is_known_by_the_name_its_processes_bear(environment: dict[str, str], fits: bool) -> None:
    process = Process(key=KEY, pod=POD, environment=tuple(environment.items()))
    assert names_process(JobId("pod:vision/train-0"), process) is fits


def test_open_leases_are_allocations_on_our_own_word() -> None:
    lease = Lease(gpu_uuid=GpuUuid("GPU-1"), job=JobId("run-7"), user="ann", project="p", share=0.5)
    outcome = LeaseSource(lambda: [lease]).read(3)
    assert isinstance(outcome, Reading)
    ((allocation,)) = outcome.allocations or ()
    assert (allocation.uuid, allocation.share, allocation.source) == ("GPU-1", 0.5, ClaimSource.LEASE)
    assert (allocation.holder.job, allocation.holder.user) == ("run-7", "ann")


def test_leases_that_cannot_be_read_are_unavailable_not_absent() -> None:
    def broken() -> list[Lease]:
        raise OSError("disk full")

    outcome = LeaseSource(broken).read(3)
    assert isinstance(outcome, Unavailable)
    assert "disk full" in outcome.reason


def test_a_person_s_own_project_goes_before_their_groups() -> None:
    projects = Projects(users={"ann": "vision"}, groups={"nlp-lab": "nlp", "staff": "common"})
    assert project_of("ann", ("nlp-lab",), projects) == "vision"
    assert project_of("bob", ("staff", "nlp-lab"), projects) == "nlp"
    assert project_of("eve", ("other",), projects) is None


def test_real_groups_of_this_machine_give_the_project() -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    group = grp.getgrgid(pwd.getpwnam(me).pw_gid).gr_name
    assert group in unix_groups(me)
    assert unix_groups("nobody-of-that-name") == ()
    lookup = project_lookup(Projects(groups={group: "lab"}))
    assert lookup(me) == "lab"
    assert lookup("nobody-of-that-name") is None


@pytest.mark.parametrize("written", ["", "0", "x", "7 8", '77  evil{a="b"} 1', "9" * 40, "7;rm", "\n7"])
def test_a_slurm_job_that_a_process_makes_up_is_no_name_of_a_job(written: str) -> None:
    process = Process(key=KEY, tree=HEAD, environment=(("SLURM_JOB_ID", written),))
    assert str(job_of(process)).startswith("pid:")
    assert all(str(job).startswith("pid:") for job in claimed_by(process))
    honest = Process(key=KEY, tree=HEAD, environment=(("SLURM_JOB_ID", "812"),))
    assert JobId("slurm:812") in claimed_by(honest)


@pytest.mark.parametrize("variable", ["SLURM_JOB_ID", "FALLOW_JOB"])
@pytest.mark.parametrize(
    ("user", "container", "known", "is_believed"),
    [
        ("ann", None, "ann", True),
        ("bob", None, "ann", False),
        ("ann", None, None, None),
        (None, CONTAINER, "ann", None),
        ("ann", CONTAINER, "ann", True),
    ],
    ids=["its person", "another", "a job of nobody known", "a container of nobody known", "rootless"],
)
def test_a_job_in_an_environment_counts_for_the_job_s_own_person(
    variable: str, user: str | None, container: str | None, known: str | None, is_believed: bool | None
) -> None:
    word = ("SLURM_JOB_ID", "9") if variable == "SLURM_JOB_ID" else ("FALLOW_JOB", "slurm:9")
    process = Process(key=KEY, tree=HEAD, uid=1000, user=user, container=container, environment=(word,))
    assert is_of(process, JobId("slurm:9"), known) is is_believed
    believed = job_among(process, {JobId("slurm:9"): known}) == "slurm:9"
    assert believed is bool(is_believed)
    assert job_among(process, {}) == job_of(process)


def test_a_job_of_which_two_words_differ_is_nobody_s() -> None:
    job = JobId("slurm:9")
    assert users_of([Holder(job=job, user="ann"), Holder(job=job)]) == {job: "ann"}
    assert users_of([Holder(job=job, user="ann"), Holder(job=job, user="bob")]) == {job: None}


def test_a_server_in_a_batch_job_is_a_server_and_a_terminal_s_stays_what_was_said() -> None:
    serving = [Process(key=KEY, kind=JobKind.INFERENCE, listens=(8000,))]
    for said, kind in ((JobKind.BATCH, JobKind.INFERENCE), (JobKind.INTERACTIVE, JobKind.INTERACTIVE)):
        found = holder_of(
            JobId("slurm:8"), [Holder(job=JobId("slurm:8"), kind=said)], serving, lambda user: None
        )
        assert found.kind is kind
