"""Who sits at a submitted job: whoever typed at its terminal lately, not whoever left it open."""

from pathlib import Path

import pytest

from collector.model import JobId
from tests.service.control.control_world import ANNA, StandIn, stage, until, wanted


@pytest.mark.parametrize(
    ("attached", "quiet_s", "said"),
    [(True, 10.0, True), (True, 899.0, True), (True, 900.0, False), (True, None, True), (False, None, False)],
)
def test_somebody_sits_at_a_terminal_while_it_is_typed_at(
    tmp_path: Path, attached: bool, quiet_s: float | None, said: bool
) -> None:
    with stage(tmp_path) as there:
        job = str(there.desk.submit(ANNA, wanted())[0]["job"])
        launcher = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        launcher.say(attached=attached, quiet_s=quiet_s)
        assert there.desk.job(ANNA, JobId(job))["report"]["attached"] is said
