"""Whom a hub's container works for: believed where the operator said whose containers are the hub's."""

from dataclasses import replace

import pytest

from collector.inventory.holders import holder_of, job_of
from collector.inventory.hub import NO_HUB, HubAccounts, says_it_is_for, with_hub_user
from collector.model import JobId, NodeName, Process, ProcessKey

KEY = ProcessKey(node=NodeName("gpu1"), pid=71, started_ms=5)
HUB = HubAccounts(uids=frozenset({1000, 400}), names=frozenset({"jovyan", "hub"}))
BOX = Process(key=KEY, uid=1000, container="0123456789abcdef" * 4, environment=(("JUPYTERHUB_USER", "bob"),))


@pytest.mark.parametrize(
    ("process", "user"),
    [
        (BOX, "bob"),
        (replace(BOX, uid=1001), None),
        (replace(BOX, uid=None), None),
        (replace(BOX, uid=100_999, user="hub"), "bob"),
        (replace(BOX, uid=1000, user="eve"), "eve"),
        (replace(BOX, container=None, user="ann"), "ann"),
        (replace(BOX, environment=()), None),
        (replace(BOX, environment=(("JUPYTERHUB_USER", "bob, and ann"),)), None),
    ],
    ids=["the hub's", "another uid", "no uid", "the hub's own", "eve's", "no container", "silent", "no name"],
)
def test_a_hub_s_containers_alone_name_their_person(process: Process, user: str | None) -> None:
    assert with_hub_user(process, HUB).user == user
    assert with_hub_user(process, NO_HUB) == process


def test_what_a_container_says_of_itself_is_shown_as_that() -> None:
    silent = replace(BOX, environment=())
    job = job_of(BOX) or JobId("")
    found = holder_of(job, [], [replace(BOX, command="python train.py")], lambda user: "p")
    assert (found.user, found.project, found.name) == (None, None, "train.py (says it is for bob)")
    assert holder_of(job, [], [BOX, silent], lambda user: "p").name is None
    known = with_hub_user(replace(BOX, command="python train.py"), HUB)
    assert holder_of(job, [], [known], lambda user: "p").name == "train.py"
    assert says_it_is_for(replace(BOX, container=None)) is None
