"""Who may use which project: a guarantee, and the bill, are a project's members' alone.

A client names a project; whether its user belongs to it is looked up here, in the configuration and among the
groups that this machine's own database knows (getgrouplist(3)), and never told by the client. The rule, and
why it is the default, is in docs/decisions/0038.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from advisor.jobs import lifecycle
from advisor.jobs.lifecycle import in_flight
from advisor.state.model import ProjectName
from collector.inventory.projects import unix_groups
from collector.model import JobId
from collector.procfs.accounts import uid_of
from collector.procfs.owners import is_lent, whose_uid
from service import names
from service.config.deciding import EVERYBODY, GROUP_SIGN, MembershipRule
from service.control.interface import acts_for_all
from service.control.wait_reasons import never_began

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register
    from service.config.model import Config

log = logging.getLogger(__name__)

KEPT_S = 60.0
"""How long groups are remembered: a directory may be slow, and who leaves a group is out within a minute."""
MOST_KEPT = 4_096
"""More people than a site has; beyond it all are asked for anew, which costs a look-up each."""
FIRST_PERSON = 1_000
"""Accounts below it are the system's (UID_MIN of login.defs(5)); a project may be called like one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the site says. ``lists``: the members of each project that has any, ``@GROUP`` among them.

    ``named`` are the projects with a table of their own, ``parents`` what is above each.
    """

    is_open: bool = False
    lists: Mapping[str, frozenset[str]] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    parents: Mapping[str, str] = field(default_factory=dict)


def rules_of(config: "Config") -> Rules:
    """The rules of a configuration. Pure."""
    lists: defaultdict[str, set[str]] = defaultdict(set)
    for name, quota in config.quotas.items():
        if quota.members:
            lists[names.composed(name)].update(quota.members)
    for user, project in config.projects.items():
        lists[names.composed(project)].add(user)
    for group, project in config.project_groups.items():
        lists[names.composed(project)].add(f"{GROUP_SIGN}{group}")
    return Rules(
        is_open=config.membership.rule == MembershipRule.OPEN,
        lists={name: frozenset(members) for name, members in lists.items()},
        named=frozenset(map(names.composed, config.quotas)),
        parents={
            names.composed(name): names.composed(quota.parent)
            for name, quota in config.quotas.items()
            if quota.parent
        },
    )


def members_of(project: str, rules: Rules) -> frozenset[str]:
    """The members of a project: its own list, else that of the nearest above it; empty: none. Pure."""
    at: str | None = project
    while at is not None:
        if at in rules.lists:
            return rules.lists[at]
        at = rules.parents.get(at)
    return frozenset()


def unlisted(rules: Rules) -> tuple[str, ...]:
    """The projects with a table and without members, those for jobs alone: operators' only. Pure."""
    inner = set(rules.parents.values())
    return tuple(sorted(each for each in rules.named - inner if not members_of(each, rules)))


def remarks(rules: Rules) -> tuple[str, ...]:
    """What the start and the doctor say of it. Asks whether projects are called like accounts."""
    if rules.is_open:
        if not rules.named:
            return ()
        return (
            'Every account may use every project, its guarantee and its bill: membership.rule is "open".',
        )
    unknown = [each for each in unlisted(rules) if uid_of(each) is None]
    if not unknown:
        return ()
    return (
        f"Nobody but operators may use {', '.join(unknown)}: no members are listed. Name them, "
        f'`[quotas.{unknown[0]}] members = ["ann", "@group"]`, or let everybody use every project, '
        '`[membership] rule = "open"`.',
    )


def hold_strangers(register: "Register", membership: "Membership", operators: frozenset[str]) -> None:
    """Hold the jobs that wait for their first start in a project that is not their owner's to use any more.

    At the start of a service, whose configuration may be another one than they were submitted under. They
    keep their places; what has begun goes on. Blocks.
    """
    result: dict[JobId, str] = {}
    for entry in register.entries().values():
        submission = entry.submission
        if never_began(entry) and not entry.held_by_user and not in_flight(entry):
            if acts_for_all(submission.uid, submission.user, operators) and not is_lent(submission.uid):
                continue
            why = membership.against(submission.user, submission.uid, submission.project)
            if why is not None:
                result[entry.id] = why
    if result:
        log.warning("%d waiting jobs are held: their owners may not use their projects", len(result))
        register.change_all(result, lambda entry: lifecycle.on_hold(entry, result[entry.id]))


class Membership:
    """Answers for one configuration. Safe from any thread; blocks as the machine's directory does."""

    def __init__(self, rules: Rules, groups_of: Callable[[str], tuple[str, ...]] = unix_groups) -> None:
        self._rules, self._groups_of = rules, groups_of
        self._kept: dict[str, tuple[float, frozenset[str]]] = {}

    def against(self, user: str, uid: int | None, project: ProjectName) -> str | None:
        """Why a user may not have jobs in a project, and in which they may; ``None``: they may."""
        rules, name = self._rules, names.composed(project)
        if rules.is_open:
            return None
        listed = members_of(name, rules)
        if listed:
            if self._is_in(user, uid, listed):
                return None
            return f"{user} is not a member of {name}; {self._instead(user, uid)}"
        if name == names.as_project(user):
            return None
        if name in rules.named:
            return f"no members of {name} are listed, so only operators use it; {self._instead(user, uid)}"
        if rules.named or rules.lists:
            return f"there is no project {name} here; {self._instead(user, uid)}"
        owner = uid_of(name)
        # Where no project is named, each account has the one of its own name, and nobody else's.
        if owner is not None and owner >= FIRST_PERSON and owner != uid:
            return f"{name} is the project of the account {name}; {self._instead(user, uid)}"
        return None

    def _is_in(self, user: str, uid: int | None, listed: frozenset[str]) -> bool:
        if user in listed or EVERYBODY in listed:
            return True
        groups = [each for each in listed if each.startswith(GROUP_SIGN)]
        return bool(groups) and not self._groups(user, uid).isdisjoint(groups)

    def _groups(self, user: str, uid: int | None) -> frozenset[str]:
        """The account's groups with their sign; none for a name that is another uid's on this machine."""
        now_s = time.monotonic()
        cached = self._kept.get(user)
        if cached is not None and now_s - cached[0] < KEPT_S:
            return cached[1]
        is_theirs = uid is not None and (uid_of(user) == uid or whose_uid(uid) == user)
        result = (
            frozenset(f"{GROUP_SIGN}{each}" for each in self._groups_of(user)) if is_theirs else frozenset()
        )
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[user] = now_s, result
        return result

    def _instead(self, user: str, uid: int | None) -> str:
        """What such a user can do, in words."""
        rules, own = self._rules, names.as_project(user)
        theirs = {each for each, listed in rules.lists.items() if self._is_in(user, uid, listed)}
        if own not in rules.lists and own not in rules.parents.values():
            theirs.add(own)
        may = f"{user} may use {', '.join(sorted(theirs))}" if theirs else f"{user} is a member of none"
        return f"{may}; an operator lists members in fallow.toml"
