"""The person behind a JupyterHub's container, where the site says which accounts are the hub's. Pure.

A container's environment is the word of whoever starts a program in it: nobody outside can tell the hub's
own from another. So it names a person only where the operator took that upon himself, for the hub's
accounts; else it's shown as what it says (``says_it_is_for``).
"""

import re
from collections.abc import Set
from dataclasses import dataclass, field, replace

from collector.model import Process

VARIABLE = "JUPYTERHUB_USER"

_NAME = re.compile(r"[\w.@+-]{1,64}")
"""Names of a hub's users, often addresses; nothing that could be read as more than one word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubAccounts:
    """Accounts as which a hub's containers run: uids, and the names of those that own rootless ones."""

    uids: Set[int] = field(default_factory=frozenset)
    names: Set[str] = field(default_factory=frozenset)


NO_HUB = HubAccounts()


def with_hub_user(process: Process, hub: HubAccounts) -> Process:
    """The process as its hub user's, where it runs in a container as one of the hub's accounts."""
    person = says_it_is_for(process)
    if person is None:
        return process
    is_hubs = process.uid in hub.uids if process.user is None else process.user in hub.names
    return replace(process, user=person) if is_hubs else process


def says_it_is_for(process: Process) -> str | None:
    """Whom a process in a container names as its person; ``None`` outside of one, and where it's no name."""
    if process.container is None and process.pod is None:
        return None
    word = dict(process.environment).get(VARIABLE, "")
    return word if _NAME.fullmatch(word) else None
