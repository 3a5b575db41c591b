"""A uid that an account was lent by /etc/subuid is that account's as a caller, as it is as a process.

Real uids before a real service, which sees accounts and a subuid file of its own in a mount namespace.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.procfs.owners import is_lent, lender_of, whose_uid
from service.control.interface import Caller, Role
from tests.conftest import program
from tests.service.api.conftest import CONFIG, Door, as_uid, submission
from tests.service.conftest import Running, is_well, until

pytestmark = pytest.mark.process
EVE, ANN, LENT, ANNS = 4003, 4001, 200_005, 300_005
MOST_JOBS = 6
"""Of one person: more than the other tests leave waiting."""
RULES = """
[membership]
rule = "members"
[quotas.lab]
members = ["@lab"]
[quotas.mine]
members = ["eve"]
"""


@pytest.fixture(scope="module")
def lent_door(tmp_path_factory: pytest.TempPathFactory, traversable: Path) -> Iterator[Door]:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    unshare, folder = program("unshare", "util-linux"), tmp_path_factory.mktemp("lent")
    etc, data, path = folder / "etc", folder / "data", traversable / "lent.sock"
    shutil.copytree("/etc", etc, symlinks=True)
    with (etc / "passwd").open("a") as file:
        file.write(f"eve:x:{EVE}:{EVE}::/nowhere:/bin/sh\nann:x:{ANN}:{ANN}::/nowhere:/bin/sh\n")
    with (etc / "group").open("a") as file:
        file.write("lab:x:4900:eve\n")
    (etc / "subuid").write_text(f"eve:200000:65536\n{ANN}:300000:65536\n")
    data.mkdir()
    text = CONFIG.format(socket=path).replace('["daemon"]', '["ann"]')
    text = text.replace("[limits]", f"[limits]\njobs = {MOST_JOBS}")
    (data / "fallow.toml").write_text(text + RULES)
    serve = [sys.executable, "-m", "service.cli", "serve", "--data", str(data), "--source", "simulated"]
    inside = 'mount --bind "$0" /etc && exec "$@"'
    made = Running(
        data=data,
        process=subprocess.Popen(
            [unshare, "--mount", "--propagation", "private", "sh", "-c", inside, str(etc), *serve],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")},
        ),
    )
    try:
        until("the service is well", lambda: is_well(made))
        yield Door(running=made, socket=path)
    finally:
        _, complaints = made.stop()
    assert "Traceback" not in complaints, complaints


def test_a_lent_uid_asks_as_the_person_it_was_lent_to(lent_door: Door) -> None:
    said = [as_uid(uid, lambda: lent_door.client().whoami()) for uid in (EVE, LENT, LENT + 65_536)]
    assert [each["name"] for each in said] == ["eve", "eve", f"uid-{LENT + 65_536}"]
    assert [each["uid"] for each in said] == [EVE, LENT, LENT + 65_536], "the kernel's own number stays"


def test_an_operator_s_containers_are_no_operators(lent_door: Door) -> None:
    said = [as_uid(uid, lambda: lent_door.client().whoami()) for uid in (ANN, ANNS)]
    assert [(each["name"], each["role"]) for each in said] == [("ann", "operator"), ("ann", "user")]


def test_jobs_of_a_person_s_uids_are_that_person_s(lent_door: Door) -> None:
    client = lent_door.client
    for owner, other in ((EVE, LENT), (LENT, EVE), (LENT, LENT + 1)):
        asked = submission(nonce=f"{owner}-{other}", project="mine")
        entry = as_uid(owner, lambda asked=asked: client().submit(asked))
        assert (entry["submission"]["user"], entry["submission"]["uid"]) == ("eve", owner)
        cancel = ("POST", f"/v1/jobs/{entry['job']}/cancel")
        assert as_uid(ANNS, lambda cancel=cancel: lent_door.ask(*cancel, body={}))[0] == 403
        assert as_uid(other, lambda cancel=cancel: lent_door.ask(*cancel, body={}))[0] in (200, 202)


def test_a_lent_uid_uses_its_person_s_projects_and_no_other(lent_door: Door) -> None:
    for project, uid, status in (("lab", LENT, 201), ("lab", ANNS, 403), ("mine", ANNS, 403)):
        asked = submission(project=project, nonce=f"{project}-{uid}")
        said = as_uid(uid, lambda asked=asked: lent_door.ask("POST", "/v1/jobs", body=asked))
        assert said[0] == status, said


def test_a_person_has_one_bound_of_jobs_for_all_uids(lent_door: Door) -> None:
    def status(uid: int, number: int) -> int:
        asked = submission(project="mine", nonce=f"bound-{uid}-{number}")
        return int(as_uid(uid, lambda: lent_door.ask("POST", "/v1/jobs", body=asked))[0])

    said = [status(uid, number) for number in range(MOST_JOBS) for uid in (EVE, LENT)]
    assert 0 < said.count(201) <= MOST_JOBS
    assert said[-2:] == [429, 429], "neither may have one more"
    assert status(ANNS, 0) == 403, "not a member of mine, but nothing of hers is used up"


def test_an_account_made_anew_under_a_name_is_another_person() -> None:
    anew = Caller(name="eve", uid=3_999_998, role=Role.USER)
    assert not anew.may_act_for("eve", 3_999_999)
    assert anew.may_act_for("eve", 3_999_998) and anew.may_act_for("eve")


def test_whose_a_uid_is_says_its_account_before_a_lender(tmp_path: Path) -> None:
    lent = tmp_path / "subuid"
    lent.write_text("eve:0:65536\n3999999:200000:65536\n")
    lender = lambda uid: lender_of(uid, lent)  # noqa: E731
    assert whose_uid(0, lender=lender) == "root" and not is_lent(0, lent)
    assert whose_uid(LENT, lender=lender) == "uid-3999999" and is_lent(LENT, lent)
    assert whose_uid(LENT + 65_536, lender=lender) == f"uid-{LENT + 65_536}"
    assert not is_lent(None, lent)
