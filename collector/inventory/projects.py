"""Which project a person works for: the configured mapping, their Unix groups as the fallback."""

import grp
import os
import pwd
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

ProjectOf = Callable[[str], str | None]
"""A user's project, or ``None`` when nothing says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projects:
    """The ``[projects]`` of the configuration: user to project, and Unix group to project."""

    users: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)


def project_of(user: str, groups: tuple[str, ...], projects: Projects) -> str | None:
    """The user's own project; else that of the first mapped group, in the order of the configuration."""
    if user in projects.users:
        return projects.users[user]
    return next((project for group, project in projects.groups.items() if group in groups), None)


def project_lookup(projects: Projects) -> ProjectOf:
    """``project_of`` over this machine's groups; blocks on the directory service once a user."""

    @lru_cache(maxsize=4096)
    def lookup(user: str) -> str | None:
        groups = unix_groups(user) if projects.groups and user not in projects.users else ()
        return project_of(user, groups, projects)

    return lookup


def unix_groups(user: str) -> tuple[str, ...]:
    """The names of the groups that this machine knows the user to be in; empty for a stranger."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return ()
    names = []
    for gid in os.getgrouplist(user, account.pw_gid):
        try:
            names.append(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return tuple(names)
