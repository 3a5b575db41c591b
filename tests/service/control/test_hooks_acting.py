"""A site's hook pauses an idle notebook of Kubernetes: warned twice, then held, and given back on a word."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.jobs.external_jobs import Holder
from advisor.jobs.manager_acts import Asked, ManagedRun, ManagerActStore
from advisor.planner.consent import Kind
from advisor.state.model import Phase
from collector.managers.model import Ask, JobKey, Look, ManagedJob
from collector.managers.model import JobState as ManagedState
from collector.model import Holder as SlurmHolder
from collector.model import JobId, JobKind
from collector.snapshot import Snapshot
from service.config.deciding import ConsentConfig, ModesConfig, ProtectConfig
from service.control.errors import ActingError, NotAllowed
from service.control.hooked_jobs import hooked_jobs
from service.control.interface import OwnWord
from tests.service.control.hook_stage import ANN, BOB, OPERATOR, HookStage, config, hook_stage

pytestmark = pytest.mark.process


def ready(stage: HookStage, name: str = "nb-ann") -> str:
    """A notebook that has been idle for five hours, whose owner was warned twice."""
    job = stage.put(name, 0)
    stage.look(ago_s=6 * 3600)
    stage.warned(job, 2 * 3600)
    stage.warned(job, 1800)
    return job


def test_an_idle_notebook_is_warned_twice_then_held_and_comes_back(tmp_path: Path) -> None:
    tell = tmp_path / "tell"
    tell.write_text(f'#!/bin/sh\nprintf "%s\\n" "$2" >> {tmp_path}/told\n')
    tell.chmod(0o755)
    site = config(
        tmp_path, tell=(str(tell), "{pod}", "{message}"), message="Dear {user}, {job} idles for {idle}."
    )
    with hook_stage(tmp_path, site) as stage:
        job = stage.put("nb-ann", 0)
        stage.look(ago_s=6 * 3600)
        assert stage.cycle() == [("Notify", "Done")]
        first = _until_told(tmp_path, 1)
        own = "Dear ann, ann's nb-ann (pod:jupyter/nb-ann) idles for 5 h."
        assert first.startswith(f"{own} This is warning 1 of 2")
        assert stage.cycle() == [], "the second comes after a grace"
        stage.clock.ahead_ms += 1000 * 1000
        stage.look()
        assert ("Notify", "Done") in stage.cycle()
        assert "warning 2 of 2" in _until_told(tmp_path, 2)
        assert stage.cycle() == [], "and so does the pause"
        stage.clock.ahead_ms += 1000 * 1000
        stage.look()
        assert stage.cycle() == [("Pause", "Late")] or stage.actions(job)[0][0] == "pause"
        verb, result, found = stage.until_settled(job)
        assert (verb, result) == ("pause", "done") and "no GPU any more" in found, found
        assert (tmp_path / "calls").read_text() == "jupyter nb-ann\n", "once"
        stage.cycle()
        state = stage.acting.loop.state
        assert state is not None and state.jobs[job].phase is Phase.PAUSED and job not in state.placements
        with pytest.raises(NotAllowed):
            stage.desk.resume(BOB, job, "mine")
        stage.acting.start()
        assert stage.desk.resume(ANN, job, "I need it")["outcome"] in ("done", "under way")
        stage.until_settled(job)
        assert (stage.pods / "nb-ann").exists()
        stage.cycle()
        assert stage.rows("SELECT over_as FROM hook_acts WHERE verb = 'pause'") == [("released",)]


def _until_told(folder: Path, count: int) -> str:
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        lines = (folder / "told").read_text().splitlines() if (folder / "told").exists() else []
        if len(lines) >= count:
            time.sleep(0.3)  # until its end is noted
            return lines[count - 1]
        time.sleep(0.05)
    raise AssertionError("nobody was told")


@pytest.mark.parametrize(
    "change",
    ["mode", "protect", "kept", "no", "warned once", "serves", "another namespace", "no rule"],
)
def test_who_is_spared_stays(tmp_path: Path, change: str) -> None:
    site = config(tmp_path, **({"idle_hours": 0} if change == "no rule" else {}))
    if change == "mode":
        site = replace(site, modes=ModesConfig())
    if change == "protect":
        site = replace(site, protect=ProtectConfig(users=("ann",)))
    with hook_stage(tmp_path, site) as stage:
        stage.kind = JobKind.INFERENCE if change == "serves" else JobKind.INTERACTIVE
        name = "lab" if change == "another namespace" else "jupyter"
        job = stage.put("nb-ann", 0, namespace=name)
        stage.look(ago_s=6 * 3600)
        for ago_s in (7200,) if change == "warned once" else (7200, 1800):
            stage.warned(job, ago_s)
        stage.look()
        if change == "kept":
            stage.desk.keep(ANN, job, 4, "writing up")
        if change == "no":
            stage.desk.consent(ANN, OwnWord(job=None, kinds={Kind.PAUSE: False}, hold_s=None))
        tried = stage.cycle()
        assert not any(step == "Pause" for step, _ in tried), tried
        assert not (tmp_path / "calls").exists() and (stage.pods / "nb-ann").exists()


def test_a_dry_run_prints_the_call_and_runs_nothing(tmp_path: Path) -> None:
    site = replace(config(tmp_path), modes=ModesConfig(reclaim="ask", schedule="advise"))
    with hook_stage(tmp_path, site) as stage:
        job = ready(stage)
        stage.cycle()
        tried = stage.desk.try_plan(OPERATOR)
        call = f"hook notebooks runs {tmp_path}/hold jupyter nb-ann, for 30 s at most"
        assert call in str(tried), tried
        assert not (tmp_path / "calls").exists() and stage.actions(job) == []


def test_a_hook_that_lies_is_not_believed(tmp_path: Path) -> None:
    with hook_stage(tmp_path, config(tmp_path, pause=("/bin/true",))) as stage:
        job = ready(stage)
        assert stage.cycle() == [("Pause", "Late")]
        stage.cycle()
        assert stage.actions(job)[0][1] is None, "it has time to leave"
        stage.clock.ahead_ms += 301_000
        verb, result, found = stage.until_settled(job)
        assert (verb, result) == ("pause", "failed") and "holds its GPUs as before" in found
        state = stage.acting.loop.state
        assert state is not None and state.jobs[job].phase is Phase.RUNNING


def test_a_hook_that_fails_and_took_it_off_all_the_same_is_seen_to_have(tmp_path: Path) -> None:
    fails = tmp_path / "fails"
    fails.write_text(f'#!/bin/sh\nmv "{tmp_path}/pods/$1" "{tmp_path}/off-$1"; echo no >&2; exit 7\n')
    fails.chmod(0o755)
    with hook_stage(tmp_path, config(tmp_path, pause=(str(fails), "{pod}"))) as stage:
        job = ready(stage)
        stage.cycle()
        verb, result, found = stage.until_settled(job)
        assert (verb, result) == ("pause", "done") and "ended with 7: no" in found


def test_what_a_crash_cut_off_is_looked_for_and_never_run_twice(tmp_path: Path) -> None:
    with hook_stage(tmp_path, config(tmp_path)) as stage:
        job = ready(stage)
        stage.cycle()
        stage.acting.stop()
        stage.join()
        assert stage.until_settled(job)[:2] == ("pause", "done")
        assert (tmp_path / "calls").read_text().count("nb-ann") == 1


def test_whom_another_engine_holds_is_not_the_hooks(tmp_path: Path) -> None:
    run = ManagedRun(cluster="c", number="1", user="ann", name="nb", submitted_ms=1, restarts=0)
    site = config(tmp_path)
    with hook_stage(tmp_path, site) as stage:
        job = stage.put("nb-ann", 0)
        stage.look()

        def owns() -> bool:
            made = hooked_jobs(stage.store, site, stage.clock, lambda: stage.snapshot, simulated=False)
            return made.owns(job)

        assert owns()
        book = ManagerActStore(stage.store, stage.clock)
        asked = Asked(
            job=job, verb="pause", run=run, target="1", holder=Holder(user="ann"), gpus=(), began_ms=1
        )
        book.begin(asked, 1)
        assert not owns()
        book.settle(1, "done")
        assert not owns()
        book.over(1, "released")
        assert owns()


def test_a_job_of_slurm_is_the_hooks_by_partition_or_qos(tmp_path: Path) -> None:
    site = config(tmp_path, namespaces=(), partitions=("preempt",), qos=("scavenge",))
    places = {"1": ("preempt", ""), "2": ("main", "scavenge"), "3": ("main", ""), "4": ("preempt2", "scav")}
    jobs = tuple(
        ManagedJob(
            key=JobKey(cluster="c", id=number, submitted_ms=1),
            holder=SlurmHolder(job=JobId(f"slurm:{number}")),
            state=ManagedState.RUNNING,
            ask=Ask(nodes=1, gpus=1),
            partition=partition,
            qos=qos,
        )
        for number, (partition, qos) in places.items()
    )
    look = Snapshot(looks=(Look(cluster="c", at_ms=1, jobs=jobs, nodes=()),))
    with hook_stage(tmp_path, site) as stage:
        made = hooked_jobs(stage.store, site, stage.clock, lambda: look, simulated=False)
        owned = [number for number in "12345" if made.owns(JobId(f"slurm:{number}"))]
        assert owned == ["1", "2"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_a_program_that_somebody_else_owns_is_never_run(tmp_path: Path) -> None:
    with hook_stage(tmp_path, config(tmp_path)) as stage:
        os.chown(tmp_path / "hold", 65534, 65534)
        job = ready(stage)
        assert stage.cycle() == [("Pause", "Unsupported")]
        assert "belongs to" in stage.actions(job)[0][2] and not (tmp_path / "calls").exists()


def test_a_pod_whose_name_is_no_name_is_left_alone(tmp_path: Path) -> None:
    with hook_stage(tmp_path, config(tmp_path)) as stage:
        job = ready(stage, "--all")
        assert stage.cycle() == [("Pause", "Unsupported")]
        assert "never given" in stage.actions(job)[0][2] and not (tmp_path / "calls").exists()


def test_an_order_needs_the_owners_yes_or_the_rule_and_a_stop_ends_all(tmp_path: Path) -> None:
    site = replace(config(tmp_path, idle_hours=0), consent=ConsentConfig(owners=True))
    with hook_stage(tmp_path, site) as stage:
        job = ready(stage)
        stage.cycle()
        stage.acting.start()
        with pytest.raises(NotAllowed):
            stage.desk.pause(BOB, job, "mine")
        with pytest.raises(ActingError, match="nobody allowed it"):
            stage.desk.pause(OPERATOR, job, "exam week")
        assert not (tmp_path / "calls").exists()
        assert stage.desk.pause(ANN, job, "lunch")["outcome"] in ("done", "under way")
        stage.until_settled(job)
        assert not (stage.pods / "nb-ann").exists()
        stage.desk.stop_acting(OPERATOR, "exam week")
        with pytest.raises(ActingError, match="stopped"):
            stage.desk.resume(ANN, job, "back")
