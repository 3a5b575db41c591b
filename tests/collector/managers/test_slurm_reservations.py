"""Slurm's reservations: whose nodes they are, and that free GPUs there are nobody else's."""

from dataclasses import replace
from pathlib import Path

import pytest

from collector.managers.model import ManagedNode, Reservation
from collector.managers.slurm.reader import RESERVATIONS_MS, SlurmManager
from collector.managers.slurm.reservations import reservations_of, with_reservations
from collector.model import NodeName, OutOfService
from collector.store.managed import RESERVATIONS
from tests.collector.managers.slurm_world import SUBMITTED_S, Job, World
from tests.collector.managers.test_slurm_reader import looked
from tests.collector.store.store_parts import ask, at_path
from tests.collector.store.test_store_managed import look
from tests.stores import open_store

RECORDED = (Path(__file__).parent / "recorded" / "slurm_22.05_reservations.txt").read_text()
NIGHT, PART, LATER = RECORDED.splitlines()
ON_MS = 1_795_690_500_000
N1, N3 = NodeName("n1"), NodeName("n3")


def test_a_reservation_is_read_with_its_owners_nodes_and_times() -> None:
    night, part, later = reservations_of(RECORDED)
    assert night == Reservation(
        name="night",
        nodes=(N3,),
        whose="account vision",
        starts_ms=1_795_690_405_000,
        ends_ms=1_795_697_605_000,
    )
    assert (part.whose, part.is_whole, part.nodes) == ("users ann, bob", False, (N3,))
    assert (later.whose, later.is_whole, later.nodes) == ("accounts vision, speech", True, (N1, N3))
    assert night.told() == "reservation night of account vision"


def test_no_reservations_are_a_sentence() -> None:
    assert reservations_of("No reservations in the system\n") == ()


@pytest.mark.parametrize(
    ("state", "at_ms", "expected"),
    [
        (None, ON_MS, (OutOfService.RESERVED, "reservation night of account vision")),
        (OutOfService.RESERVED, ON_MS, (OutOfService.RESERVED, "reservation night of account vision")),
        (OutOfService.DOWN, ON_MS, (OutOfService.DOWN, "bad")),
        (None, 1_795_690_404_000, (None, "bad")),
        (None, 1_795_697_605_000, (None, "bad")),
    ],
    ids=["on", "said by sinfo too", "down all the same", "not yet", "over"],
)
def test_a_node_is_reserved_while_its_reservation_is_on(
    state: OutOfService | None, at_ms: int, expected: tuple[OutOfService | None, str]
) -> None:
    node = ManagedNode(name=N3, state=state, reason="bad")
    (found,) = with_reservations((node,), reservations_of(NIGHT), at_ms)
    assert (found.state, found.reason) == expected


def test_some_cores_of_a_node_are_not_its_gpus() -> None:
    node = ManagedNode(name=N3)
    assert with_reservations((node,), reservations_of(PART), ON_MS) == (node,)


def test_reservations_are_asked_for_once_a_minute_and_kept_where_slurm_is_silent() -> None:
    told = NIGHT.replace("Nodes=n3", "Nodes=gpu1")
    world = World(reservations=[told])
    manager = SlurmManager(run=world.run)
    first = looked(manager, ON_MS)
    assert [node.state for node in first.nodes] == [OutOfService.RESERVED]
    assert first.reservations == tuple(
        replace(each, nodes=(NodeName("gpu1"),)) for each in reservations_of(NIGHT)
    )
    world.reservations = []
    assert looked(manager, ON_MS + RESERVATIONS_MS - 1).reservations == first.reservations
    assert looked(manager, ON_MS + RESERVATIONS_MS).reservations == ()


def test_what_is_reserved_is_kept_as_it_is_now(tmp_path: Path) -> None:
    world = World(reservations=[NIGHT])
    manager = SlurmManager(run=world.run)
    question = f"SELECT {', '.join(RESERVATIONS.names)} FROM manager_reservations"
    with open_store(at_path(tmp_path)) as store:
        at_ms = (SUBMITTED_S + 60) * 1000
        look(store, manager, world, [Job(id=812)], at_ms)
        (row,) = ask(store, question)
        assert row[:6] == ("slurm", "lab", "night", ["n3"], True, "account vision")
        world.reservations = []
        look(store, manager, world, [Job(id=812)], at_ms + RESERVATIONS_MS)
        assert ask(store, question) == []
