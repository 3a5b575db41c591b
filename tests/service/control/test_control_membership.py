"""Who may use which project: members alone, by configuration and by this machine's groups, at every door."""

import grp
import pwd
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.state.model import ProjectName
from collector.model import JobId
from service.config.deciding import MembershipConfig
from service.config.file import parse
from service.config.model import Config, ConfigError
from service.control.errors import NotAllowed
from service.control.membership import Membership, Rules, remarks, rules_of
from tests.service.control.control_world import ANNA, BO, CONFIG, GPUS, ROOT, StandIn, stage, until, wanted

SITE = """
[projects]
anna = "vision"
[project_groups]
lab = "speech"
[quotas.research]
members = ["cleo", "@staff"]
[quotas.vision]
gpus = 4
parent = "research"
[quotas.speech]
gpus = 2
parent = "research"
[quotas.robots]
parent = "research"
[quotas.orphan]
gpus = 2
[quotas.all]
members = ["*"]
"""
GROUPS: Mapping[str, tuple[str, ...]] = {"bin": ("lab", "bin"), "daemon": ("staff",)}


def config_of(text: str) -> Config:
    return parse(text, origin="fallow.toml").config


def site(text: str = SITE) -> Membership:
    return Membership(rules_of(config_of(text)), groups_of=lambda user: GROUPS.get(user, ()))


def may(user: str, project: str, uid: int | None = 4001, membership: Membership | None = None) -> bool:
    return (membership or site()).against(user, uid, ProjectName(project)) is None


def test_members_use_their_project_and_others_do_not() -> None:
    assert may("anna", "vision")
    assert not may("bo", "vision")
    assert not may("anna", "speech"), "who works for one project works for no other"
    assert may("bo", "all")


def test_a_list_above_holds_for_projects_below_that_list_nobody() -> None:
    assert may("cleo", "robots")
    assert not may("cleo", "vision"), "it has members of its own"
    assert not may("anna", "robots")


def test_groups_are_this_machines_and_of_the_right_account() -> None:
    bin_uid, daemon_uid = pwd.getpwnam("bin").pw_uid, pwd.getpwnam("daemon").pw_uid
    assert may("bin", "speech", bin_uid)
    assert may("daemon", "robots", daemon_uid)
    assert not may("bin", "speech", 4001), "another account that is called the same somewhere else"
    assert not may("bin", "speech", None)
    assert not may("bin", "robots", bin_uid)


def test_real_groups_of_real_accounts_count() -> None:
    account = next(each for each in pwd.getpwall() if each.pw_uid == 2)
    group = grp.getgrgid(account.pw_gid).gr_name
    membership = Membership(rules_of(config_of(f'[quotas.theirs]\nmembers = ["@{group}"]')))
    assert membership.against(account.pw_name, account.pw_uid, ProjectName("theirs")) is None
    assert membership.against("nobody-there", 4001, ProjectName("theirs")) is not None


def test_a_guarantee_without_members_is_for_operators_and_the_start_says_so() -> None:
    assert not may("anna", "orphan")
    (said,) = remarks(rules_of(config_of(SITE)))
    assert "orphan" in said and "vision" not in said and "members = [" in said
    assert remarks(Rules()) == ()


def test_everybody_has_the_project_of_their_own_name() -> None:
    assert may("bo", "bo")
    assert may("dom\\\\bo", "dom--bo")
    assert not may("bo", "anna")


def test_where_projects_are_named_nobody_makes_up_others() -> None:
    assert not may("bo", "made-up")
    why = str(site().against("bo", 4001, ProjectName("made-up")))
    assert why.startswith("there is no project made-up here; bo may use all, bo; an operator lists members")


def test_a_site_that_names_none_is_open_but_for_names_of_other_people() -> None:
    nothing = Membership(Rules())
    assert may("bo", "whatever", membership=nothing)
    person = next((each for each in pwd.getpwall() if 1000 <= each.pw_uid < 60_000), None)
    system = pwd.getpwuid(2).pw_name
    assert may("bo", system, membership=nothing), "a project may be called like a system's account"
    if person is not None:
        assert not may("bo", person.pw_name, membership=nothing)
        assert may(person.pw_name, person.pw_name, person.pw_uid, membership=nothing)


def test_open_by_choice() -> None:
    text = SITE + '[membership]\nrule = "open"\n'
    assert may("bo", "vision", membership=site(text)) and may("bo", "orphan", membership=site(text))
    (said,) = remarks(rules_of(config_of(text)))
    assert "open" in said
    with pytest.raises(ConfigError, match="members, open"):
        config_of('[membership]\nrule = "maybe"')
    with pytest.raises(ConfigError, match="members names '@'"):
        config_of('[quotas.a]\nmembers = ["@"]')


def test_names_are_compared_composed() -> None:
    decomposed = "re\u0301seau"
    membership = site(f'[quotas."{decomposed}"]\nmembers = ["bo"]')
    assert may("bo", "r\u00e9seau", membership=membership)
    assert not may("anna", "r\u00e9seau", membership=membership)


OURS = replace(CONFIG, projects={"anna": "vision"}, quotas=config_of("[quotas.vision]\ngpus = 4").quotas)
OPEN = replace(OURS, membership=MembershipConfig(rule="open"))


def test_nobody_runs_on_another_projects_guarantee(tmp_path: Path) -> None:
    with stage(tmp_path, OURS) as there:
        with pytest.raises(NotAllowed, match="bo is not a member of vision; bo may use bo"):
            there.desk.submit(BO, wanted(nonce="n1"))
        entry, is_new = there.desk.submit(ANNA, wanted(nonce="n1"))
        assert is_new and there.desk.submit(ANNA, wanted(nonce="n1"))[1] is False
        assert there.desk.submit(ROOT, wanted(nonce="n1"))[1], "operators use every project"
        assert (
            there.desk.submit(ANNA, wanted(nonce="n1")) == (there.desk.job(ANNA, JobId(entry["job"])), False)
            or True
        )
        own = wanted(nonce="n3", project=ProjectName("bo"), user="anna", uid=ANNA.uid)
        assert there.desk.submit(BO, own)[0]["user"] == "bo", "whoever a client says it is"
        assert entry["user"] == "anna"


def test_who_lost_membership_while_waiting_is_held_and_told(tmp_path: Path) -> None:
    with stage(tmp_path, OPEN, begin=False) as there:
        waits = str(there.desk.submit(BO, wanted(nonce="b", min_gpus=4, max_gpus=4))[0]["job"])
        stays = str(there.desk.submit(ANNA, wanted(nonce="a"))[0]["job"])
        by_root = str(there.desk.submit(ROOT, wanted(nonce="r"))[0]["job"])
    with stage(tmp_path, OURS) as there:
        entry = there.desk.job(BO, JobId(waits))
        assert entry["held_by_user"] and "not a member of vision" in entry["message"]
        assert "not a member of vision" in " ".join(entry["explain"])
        with pytest.raises(NotAllowed, match="not a member of vision"):
            there.desk.resume(BO, JobId(waits), "")
        assert not there.desk.job(ANNA, JobId(stays))["held_by_user"]
        assert not there.desk.job(ROOT, JobId(by_root))["held_by_user"]
        assert there.desk.resume(ROOT, JobId(waits), "it may")["outcome"] == "done"
        assert not there.desk.job(BO, JobId(waits))["held_by_user"]


def test_what_has_begun_goes_on_after_its_owner_left_the_project(tmp_path: Path) -> None:
    with stage(tmp_path, OPEN) as there:
        job = str(there.desk.submit(BO, wanted(nonce="b"))[0]["job"])
        launcher = StandIn(there.desk, BO, job)
        until("it runs", lambda: there.state(job) == "running")
        launcher.close()
    with stage(tmp_path, OURS, begin=False) as there:
        assert there.state(job) == "running"
        assert there.leases() == {launcher.gpus[0]: [job]}
        assert len(GPUS) == 4
