"""Memory of another process is read where the kernel allows it, and nowhere else."""

import json
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.process_group import local_copy  # noqa: E402

pytestmark = pytest.mark.quick

NOBODY = 65534


@contextmanager
def owner_of(tensors: "list[torch.Tensor]", account: int | None = None) -> Iterator[local_copy.Offer]:
    """Another process that has copies of ``tensors`` to offer and then stands still, as ``account``."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        copies = [tensor.clone() + 1 for tensor in tensors]
        made = local_copy.offer(copies)
        if account is not None:
            os.setuid(account)
        os.write(writing, pickle.dumps(made))
        signal.pause()
    try:
        yield pickle.loads(os.read(reading, 100_000))
    finally:
        os.close(reading)
        os.close(writing)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def in_a_child(work: Callable[[], bool]) -> bool:
    """What ``work`` says in a process of its own."""
    pid = os.fork()
    if pid == 0:
        os._exit(int(work()))
    return bool(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def test_what_another_process_offers_is_read_whole() -> None:
    numbers = [torch.arange(5_000_000), torch.arange(3.0), torch.zeros(0), torch.arange(7.0)]
    with owner_of(numbers) as made:
        assert local_copy.can_read(made)
        strided = torch.zeros(14)[::2]
        into = [torch.zeros(5_000_000, dtype=torch.int64), torch.zeros(3), torch.zeros(0), strided]
        local_copy.read(made, into)
    for mine, theirs in zip(into, numbers, strict=True):
        assert torch.equal(mine, theirs + 1)


def test_only_what_lies_on_the_cpu_without_gaps_is_offered() -> None:
    whole = torch.zeros(4, 4)
    made = local_copy.offer([whole, whole.t(), whole.to("meta"), torch.zeros(2, dtype=torch.cfloat).conj()])
    assert made is not None
    assert list(made.spans) == [0]
    assert local_copy.offer([whole.t()]) is None


def test_nothing_is_offered_where_the_environment_forbids_it() -> None:
    assert local_copy.offer([torch.ones(3)], {local_copy.ENV_SWITCH: "0"}) is None
    assert local_copy.offer([torch.ones(3)], {local_copy.ENV_SWITCH: "1"}) is not None


def test_another_machine_another_pid_namespace_and_no_tensors_are_no_neighbours() -> None:
    with owner_of([torch.ones(3)]) as made:
        assert not local_copy.can_read(replace(made, machine="another"))
        assert not local_copy.can_read(replace(made, spans={}))


def test_a_machine_that_cannot_be_told_is_nobodys_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_copy, "BOOT_ID", local_copy.BOOT_ID / "absent")
    mine = local_copy.offer([torch.ones(3)])
    assert mine is not None
    assert not in_a_child(lambda: local_copy.can_read(mine))


def test_a_kernel_without_the_call_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with owner_of([torch.ones(3)]) as made:
        monkeypatch.setattr(local_copy, "_system_call", lambda: None)
        assert not local_copy.can_read(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_memory_is_not_read() -> None:
    with owner_of([torch.ones(3)]) as made:

        def as_nobody() -> bool:
            os.setuid(NOBODY)
            return local_copy.can_read(made)

        assert not in_a_child(as_nobody)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the memory of all")
def test_a_pid_of_another_account_is_not_read_though_root_could() -> None:
    with owner_of([torch.arange(3.0)]) as made:
        assert local_copy.can_read(made)
    with owner_of([torch.arange(3.0)], account=NOBODY) as made:
        assert not local_copy.can_read(made)


def test_a_pid_that_is_another_process_by_now_is_not_read() -> None:
    with owner_of([torch.ones(3)]) as made:
        later = replace(made, began=made.began + 1)
        assert not local_copy.can_read(later)
        with pytest.raises(local_copy.NeighbourGone, match="ended while it was read"):
            local_copy.read(later, [torch.zeros(3)])


def test_an_offer_travels_as_json_and_fits_what_it_fills() -> None:
    tensors = [torch.ones(3), torch.ones(2, 2).t(), torch.zeros(0)]
    made = local_copy.offer(tensors)
    assert made is not None
    told = json.loads(json.dumps(local_copy.to_json(made)))
    assert local_copy.from_json(told, tensors) == made
    for into in ([torch.ones(4), *tensors[1:]], tensors[:1], [torch.empty(3, device="meta"), *tensors[1:]]):
        with pytest.raises(ValueError, match="does not fit"):
            local_copy.from_json(told, into)


def test_an_owner_that_has_ended_is_said_to_be_gone() -> None:
    with owner_of([torch.ones(3)]) as made:
        pass
    assert not local_copy.can_read(made)
    with pytest.raises(local_copy.NeighbourGone, match=f"process {made.pid}"):
        local_copy.read(made, [torch.zeros(3)])


def test_where_only_ancestors_may_read_it_is_allowed_for_a_while(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Yama's scope 1; kernels without Yama answer the request with an error that changes nothing."""
    asked: list[int] = []
    scope = tmp_path / "ptrace_scope"
    monkeypatch.setattr(local_copy, "YAMA", scope)
    monkeypatch.setattr(local_copy, "_allow", asked.append)
    for text in (None, "0\n", "1\n"):
        if text is not None:
            scope.write_text(text)
        with local_copy.letting_read():
            pass
    assert asked == [local_copy.ANY, local_copy.NOBODY]
