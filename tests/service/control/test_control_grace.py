"""While a job is given its grace the service goes on: others start, and nobody else is asked for its heir."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.jobs.model import Elasticity, ReallocateCommand, StartCommand
from advisor.state.model import ProjectName
from collector.model import JobId
from service.config.deciding import ModesConfig, QuotaConfig
from tests.service.control.control_world import ANNA, CONFIG, ROOT, Stage, StandIn, stage, until, wanted

pytestmark = pytest.mark.slow

QUOTAS = {name: QuotaConfig(gpus=2, members=("*",)) for name in ("vision", "speech")}
SHRINKING = replace(CONFIG, modes=ModesConfig(resize="auto"), quotas=QUOTAS)


def begun(there: Stage, name: str, **asked: object) -> tuple[str, StandIn]:
    project = ProjectName(str(asked.pop("project", "vision")))
    job = str(there.desk.submit(ANNA, wanted(name=name, nonce=name, project=project, **asked))[0]["job"])
    return job, StandIn(there.desk, ANNA, job)


def test_others_start_while_a_job_takes_its_time_to_give_way(tmp_path: Path) -> None:
    with stage(tmp_path, SHRINKING) as there:
        wide, launcher = begun(there, "wide", min_gpus=1, max_gpus=2)
        until("it has two", lambda: there.state(wide) == "running" and len(launcher.gpus) == 2)
        rigid, other = begun(there, "rigid", mobility=Elasticity.RIGID, preemptible=False)
        until("it runs", lambda: there.state(rigid) == "running")
        launcher.deaf = True
        heir, heirs = begun(there, "heir", min_gpus=2, max_gpus=2, project="speech")
        reshape = until(
            "it is asked to shrink", lambda: [d for d in launcher.told if isinstance(d, ReallocateCommand)]
        )
        assert len(reshape[0].gpus) == 1
        waits = until("the heir knows", lambda: [p for p in heirs.places if wide in p["waits_for"]])
        assert "give way to it" in waits[-1]["waits_for"]
        late, late_begin = begun(there, "late")
        other.finish()
        until("the late one runs on what came free", lambda: there.state(late) == "running")
        assert there.state(heir) == "pending", "the free GPU of its place was not borrowed under its eyes"
        assert len([d for d in launcher.told if isinstance(d, ReallocateCommand)]) == 1, (
            "nobody is asked twice"
        )
        launcher.deaf, launcher.gpus, launcher.handled = False, reshape[0].gpus, reshape[0].number
        launcher.say()
        until("the heir runs", lambda: there.state(heir) == "running")
        begin = next(d for d in heirs.told if isinstance(d, StartCommand))
        assert not set(begin.gpus) & {*reshape[0].gpus, *late_begin.gpus}
        asked = [
            row for row in there.desk.actions(ROOT, since_ms=None, job=JobId(wide)) if row["verb"] == "resize"
        ]
        assert [row["outcome"] for row in asked] == ["done"]
        assert there.troubles == []


def test_a_late_give_way_is_finished_after_a_restart_and_its_place_is_still_the_heirs(tmp_path: Path) -> None:
    with stage(tmp_path, SHRINKING) as there:
        wide, launcher = begun(there, "wide", min_gpus=1, max_gpus=4)
        until("it has four", lambda: there.state(wide) == "running" and len(launcher.gpus) == 4)
        launcher.deaf = True
        heir, _ = begun(there, "heir", min_gpus=2, max_gpus=2, project="speech")
        reshape = until(
            "it is asked to shrink", lambda: [d for d in launcher.told if isinstance(d, ReallocateCommand)]
        )[0]
    with stage(tmp_path, SHRINKING) as again:
        rival = StandIn(again.desk, ANNA, begun_again(again, "rival"))
        second = StandIn(again.desk, ANNA, heir)
        first = StandIn(again.desk, ANNA, wide, after=reshape.number)
        first.gpus, first.state = reshape.gpus, launcher.state
        first.say()
        until("the heir runs", lambda: again.state(heir) == "running")
        assert not set(second.gpus) & set(reshape.gpus)
        assert again.state(str(rival.job)) == "pending"


def begun_again(there: Stage, name: str) -> str:
    return str(there.desk.submit(ANNA, wanted(name=name, nonce=name))[0]["job"])
