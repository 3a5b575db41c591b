"""Who stands on a GPU on behalf of all: by who runs it, whatever it's called and however it draws."""

from dataclasses import replace

import pytest

from collector.inventory.bystanders import (
    DESKTOP_BYTES,
    DISPLAY_SERVERS,
    LEAST_CONTEXT_BYTES,
    SYSTEM_ACCOUNTS,
)
from collector.model import Intrusion, Process, ProcessSample, ProcessType
from tests.collector.attribution.test_attribution_cases import (
    CONTAINER,
    GPUS,
    held,
    key,
    on,
    process,
    run,
    slurm,
)

DRAWS, COMPUTES, BOTH = ProcessType.GRAPHICS, ProcessType.COMPUTE, ProcessType.BOTH
SERVER, CUT = "nvidia-cuda-mps-server", "nvidia-cuda-mps"


def holding(gpu: int, pid: int, kind: ProcessType, memory_bytes: int | None = None) -> list[ProcessSample]:
    return [replace(each, memory_used_bytes=memory_bytes) for each in on(gpu, pid, type=kind)]


@pytest.mark.parametrize("kind", [DRAWS, COMPUTES, BOTH])
@pytest.mark.parametrize("name", ["Xorg", "gnome-shell", "nv-hostengine", SERVER, CUT])
@pytest.mark.parametrize("seat", [False, None])
def test_a_borrowed_name_forgives_nothing(name: str, kind: ProcessType, seat: bool | None) -> None:
    liar = process(71, "bob", name=name, at_seat=seat)
    given = run([liar], on(0, 71, type=kind), node_claims=slurm(812, 0))
    free = run([liar], on(0, 71, type=kind))
    if kind is DRAWS and seat is None:  # nobody can tell who sits at this machine
        assert (given.unknown, given.intrusions) == ({key(71)}, ())
    else:
        assert given.intrusions == (Intrusion(key=key(71), uuid=GPUS[0].uuid),)
    # A display server that only draws is nobody's job where nobody can tell; a name alone spares no other.
    is_screen = name in DISPLAY_SERVERS and kind is DRAWS and seat is None
    assert [each.holder.user for each in free.allocations] == ([] if is_screen else ["bob"])


@pytest.mark.parametrize(
    ("who", "kind", "memory_bytes", "forgiven"),
    [
        (process(71, "root", name="Xorg"), BOTH, None, True),
        (process(71, "gdm", name="gnome-shell"), DRAWS, None, True),
        (process(71, "gdm", name="gnome-shell"), COMPUTES, None, True),
        (process(71, "gdm", name="python"), COMPUTES, None, False),
        (process(71, "root", name="python"), COMPUTES, None, False),
        (process(71, "bob", name="firefox", at_seat=True), DRAWS, DESKTOP_BYTES, True),
        (process(71, "bob", name="firefox", at_seat=True), DRAWS, DESKTOP_BYTES + 1, False),
        (process(71, "bob", name="Xorg", at_seat=True), BOTH, 0, False),
        (process(71, "bob", name="cosmic-workspac", at_seat=True), BOTH, 14 << 20, True),
        (process(71, "bob", name="cosmic-workspac", at_seat=True), BOTH, LEAST_CONTEXT_BYTES, False),
        (process(71, "bob", name="cosmic-workspac", at_seat=False), BOTH, 14 << 20, False),
        (process(71, "bob", name="Xorg", at_seat=True), COMPUTES, 0, False),
        (process(71, "bob", name=CUT, parent_of_root="nvidia-cuda-mps"), COMPUTES, None, True),
        (process(71, "bob", name=CUT, parent_of_root="cron"), COMPUTES, None, False),
        (process(71, "bob", name="python", parent_of_root="nvidia-cuda-mps"), COMPUTES, None, False),
        (process(71, "bob", name="Xorg", container=CONTAINER, at_seat=False), DRAWS, None, False),
    ],
)
def test_who_runs_it_decides(
    who: Process, kind: ProcessType, memory_bytes: int | None, forgiven: bool
) -> None:
    found = run([who], holding(0, 71, kind, memory_bytes))
    assert (key(71) in found.bystanders) is forgiven
    assert (found.allocations == ()) is forgiven


@pytest.mark.parametrize(("memory_bytes", "holders"), [(50 << 20, 0), (DESKTOP_BYTES + 1, 1)])
def test_a_display_server_holds_nothing_where_nobody_knows_who_sits_there(
    memory_bytes: int, holders: int
) -> None:
    """A service in a container sees the host's processes, and no logind: who sits there is not known."""
    found = run([process(71, "bob", name="Xorg", at_seat=None)], holding(0, 71, DRAWS, memory_bytes))
    assert len(found.allocations) == holders
    assert (found.unknown == {key(71)}) is (holders == 0)
    assert key(71) not in found.bystanders


@pytest.mark.parametrize("kind", [DRAWS, COMPUTES])
def test_root_in_a_container_is_not_the_machine_s_root(kind: ProcessType) -> None:
    inside = process(71, None, uid=0, name="Xorg", container=CONTAINER)
    assert [each.holder.job for each in run([inside], on(0, 71, type=kind)).allocations] == [
        "container:0123456789ab"
    ]
    assert run([inside], on(0, 71, type=kind), node_claims=slurm(812, 0)).unknown == {key(71)}


def test_a_person_s_own_mps_server_stands_for_its_clients_alone() -> None:
    server = process(71, "bob", name=CUT)
    client, other = process(72, "bob", name="python"), process(73, "ann", name="python")
    found = run([server, client], on(0, 71, 72))
    assert (found.bystanders, len(found.allocations)) == ({key(71)}, 1)
    for beside in ([other], [client]):
        samples = [*on(0, 71), *on(0 if beside == [other] else 1, beside[0].key.pid)]
        assert run([server, *beside], samples).bystanders == frozenset()
    twin = replace(server, key=key(74))
    assert run([server, twin], on(0, 71, 74)).bystanders == frozenset()


@pytest.mark.parametrize("container", [CONTAINER, None])
def test_a_uid_inside_a_container_makes_nobody_outside_its_mps_server(container: str | None) -> None:
    liar = process(71, "eve", uid=1000, name=CUT)
    inside = process(72, None, uid=1000, name="python", container=CONTAINER)
    found = run([replace(liar, container=container), inside], on(0, 71, 72))
    assert key(71) not in found.bystanders
    other = replace(liar, user=None, container="f" * 64)
    assert key(71) not in run([other, inside], on(0, 71, 72)).bystanders
    own = replace(liar, user=None, container=CONTAINER)
    assert run([own, inside], on(0, 71, 72)).bystanders == {key(71)}, "of one container are of one person"
    rootless = replace(inside, uid=200_999, user="eve")
    assert run([liar, rootless], on(0, 71, 72)).bystanders == {key(71)}


def test_drawing_on_another_s_gpu_beside_one_s_own_job_is_an_intrusion() -> None:
    miner = process(71, "bob", at_seat=False)
    samples = [*on(1, 71), *holding(0, 71, DRAWS, DESKTOP_BYTES)]
    assert run([miner], samples, node_claims=slurm(812, 0)).intrusions == (
        Intrusion(key=key(71), uuid=GPUS[0].uuid),
    )
    window = replace(miner, at_seat=True)
    assert run([window], samples, node_claims=slurm(812, 0)).intrusions == ()
    assert run([replace(miner, at_seat=None)], samples, node_claims=slurm(812, 0)).intrusions == ()
    large = [*on(1, 71), *holding(0, 71, DRAWS, DESKTOP_BYTES + 1)]
    assert held(run([window], large)).keys() == {"GPU-0", "GPU-1"}


def test_a_hidden_process_that_draws_holds_its_gpu_and_is_nobody_known() -> None:
    found = run([], on(0, 71, type=DRAWS))
    assert (found.unknown, len(found.allocations)) == ({key(71)}, 1)


def test_nobody_logs_in_as_an_account_that_is_forgiven() -> None:
    assert not {"root", "nobody", "ubuntu"} & SYSTEM_ACCOUNTS
