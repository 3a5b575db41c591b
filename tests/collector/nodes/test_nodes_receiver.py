"""What a head takes in of its nodes: each tick once, in its true time, and of each node its own alone."""

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.arrow import to_holder_table
from collector.model import Gpu, GpuUuid, HolderSample, JobId, NodeName
from collector.reading import Reading, Tick
from collector.sources.nodes.headship import Headship
from collector.sources.nodes.item import OLDEST_MS
from collector.sources.nodes.receiver import MOST_QUEUED, NodeKey, NodeReceiver, NotTheHead, NotYours
from collector.sources.nodes.terms import sealed
from collector.store.database import Store
from collector.store.nodes import read_node_marks, read_node_owners
from tests.collector.nodes.nodes_world import START_MS, TICK_MS, UP_MS, Node, page
from tests.stores import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "fallow.duckdb") as made:
        yield made


def head_of(store: Store) -> NodeReceiver:
    with store.reader() as reader:
        return NodeReceiver(read_node_marks(reader), read_node_owners(reader), most_gpus=64)


def drain(head: NodeReceiver, store: Store, now_ms: int) -> Reading:
    """One tick of the head."""
    reading = head.read(now_ms)
    tick = Tick(at_ms=now_ms, width_ms=TICK_MS, outcomes=(reading,), allocations=reading.allocations)
    store.write_tick(tick)
    head.stored(tick)
    return reading


def stored(store: Store) -> list[tuple[str, int]]:
    with store.reader() as reader:
        return reader.execute(
            "SELECT uuid, epoch_ms(ts) FROM samples JOIN gpus USING (gpu_id) ORDER BY ALL"
        ).fetchall()


def held(store: Store) -> list[tuple[str, int, int | None]]:
    with store.reader() as reader:
        return reader.execute(
            "SELECT job, epoch_ms(from_ts), epoch_ms(to_ts) FROM allocations JOIN holders USING (holder_id) "
            "ORDER BY from_ts, job"
        ).fetchall()


def gaps(store: Store) -> list[tuple[int, int, str]]:
    with store.reader() as reader:
        return reader.execute(
            "SELECT epoch_ms(from_ts), epoch_ms(to_ts), reason FROM gaps WHERE node = 'gpu-a' ORDER BY ALL"
        ).fetchall()


def times(*ticks: int) -> list[int]:
    return [START_MS + tick * TICK_MS for tick in ticks]


def test_a_tick_is_received_then_stored_and_then_forgotten(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    node.tick(START_MS)
    first = node.push(START_MS + 1)
    assert (first.received, first.stored) == (1, 0)
    drain(head, store, START_MS + 2_000)
    assert node.push(START_MS + 3_000).stored == 1
    assert stored(store) == [("GPU-a0", START_MS)]


def test_ticks_that_are_sent_again_add_no_row_whoever_was_killed(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    for at_ms in times(0, 1, 2):
        node.tick(at_ms)
    node.push(times(2)[0] + 1)
    drain(head, store, times(2)[0] + 2)
    again = head_of(store)  # the head was killed after its commit, before its answer
    node.head, node.received = again, 0
    node.tick(times(3)[0])
    node.push(times(3)[0] + 1)
    drain(again, store, times(3)[0] + 2)
    drain(again, store, times(3)[0] + 3)
    assert stored(store) == [("GPU-a0", at_ms) for at_ms in times(0, 1, 2, 3)]


def test_what_was_received_and_not_stored_is_asked_for_again(store: Store) -> None:
    node = Node(head_of(store))
    node.tick(START_MS)
    assert node.push(START_MS + 1).received == 1
    node.head = head_of(store)  # killed before its tick
    node.tick(times(1)[0])
    assert node.push(times(1)[0] + 1).received == 0
    node.push(times(1)[0] + 2)
    drain(node.head, store, times(1)[0] + 3)
    assert stored(store) == [("GPU-a0", at_ms) for at_ms in times(0, 1)]
    assert gaps(store) == []


def test_a_tick_that_the_store_refused_waits_for_the_next_one(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    node.tick(START_MS)
    node.push(START_MS + 1)
    head.read(START_MS + 2)  # and the commit failed
    assert node.push(START_MS + 3).stored == 0
    drain(head, store, START_MS + 4)
    assert stored(store) == [("GPU-a0", START_MS)]


def test_late_ticks_land_in_their_own_time_and_leave_no_gap(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    node.tick(START_MS)
    node.push(START_MS + 1)
    drain(head, store, START_MS + 2)
    for at_ms in times(*range(1, 61)):
        node.tick(at_ms)
    node.push(times(60)[0] + 1)
    drain(head, store, times(60)[0] + 2)
    assert stored(store) == [("GPU-a0", at_ms) for at_ms in times(*range(61))]
    assert gaps(store) == []
    with store.reader() as reader:
        minutes = reader.execute("SELECT count(*) FROM rollup_1m").fetchone()
    assert minutes == (
        10,
    )  # one before the first tick, whose sample began there; nine a minute after their end


def test_a_hole_is_a_gap_with_its_reason(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    for at_ms in times(0, 1, 5):
        node.tick(at_ms)
    node.push(times(5)[0] + 1)
    drain(head, store, times(5)[0] + 2)
    (gap,) = gaps(store)
    assert gap[:2] == (times(1)[0], times(4)[0])
    assert "did not measure" in gap[2]


def test_ticks_that_the_spool_let_go_are_counted_and_a_gap(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    for at_ms in times(*range(8)):
        node.tick(at_ms)
    del node.records[2:6]
    node.push(times(7)[0] + 1)
    drain(head, store, times(7)[0] + 2)
    (gap,) = gaps(store)
    assert gap == (
        times(1)[0],
        times(5)[0],
        "4 ticks of node gpu-a were lost: its spool was full, or was deleted",
    )
    with store.reader() as reader:
        assert [mark.lost for mark in read_node_marks(reader)] == [4]


def test_who_held_a_gpu_while_the_head_was_deaf_is_told_anew(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    a, b = "pid:gpu-a/1@5", "pid:gpu-a/2@6"
    for i, jobs in enumerate([(a,), (a,), (a,), (b,), (), (), (b,)]):
        at_ms = times(i)[0]
        node.tick(at_ms, page(at_ms, jobs=jobs))
        if i == 0:
            node.push(at_ms + 1)
        if i in (0, 3):  # at tick 3 the head still believes the first
            drain(head, store, at_ms + 2)
    assert held(store) == [(a, START_MS - TICK_MS + 2, None)]
    node.push(times(6)[0] + 1)
    drain(head, store, times(6)[0] + 2)
    assert held(store) == [
        (a, START_MS - TICK_MS + 2, times(2)[0]),
        (b, times(2)[0], times(3)[0]),
        (b, times(5)[0], None),
    ]


def test_how_much_waited_in_a_spool_is_kept_as_the_last_push_said(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    for said in ({"waiting": 72, "waits_ms": 720_000}, {}):
        node.tick(times(node.number)[0])
        node.push(times(node.number)[0] + 1, **said)
        drain(head, store, times(node.number)[0] + 2)
        with store.reader() as reader:
            (mark,) = read_node_marks(reader)
        assert (mark.waiting, mark.waits_ms) == (said.get("waiting"), said.get("waits_ms"))


def test_a_head_that_is_not_the_one_takes_nothing_in(store: Store) -> None:
    key = b"k" * 32
    own, other = (sealed(key, epoch=epoch, start=1, word="w") for epoch in (0, 9))
    head = head_of(store)
    head.headship = Headship(key, own, {1: "w"})
    node = Node(head)
    node.tick(START_MS)
    assert node.push(START_MS + 1, head=own).head == own
    node.tick(times(1)[0])
    with pytest.raises(NotTheHead, match="took over"):
        node.push(times(1)[0] + 1, head=other)
    drain(head, store, times(1)[0] + 2)
    assert stored(store) == [("GPU-a0", START_MS)]


@pytest.mark.parametrize("ahead_ms", [37_000, -3_600_000])
def test_a_clock_that_is_wrong_is_told_and_the_heads_time_counts(store: Store, ahead_ms: int) -> None:
    head = head_of(store)
    node = Node(head, ahead_ms=ahead_ms)
    for at_ms in times(0, 1):
        node.tick(at_ms)
    receipt = node.push(times(1)[0] + 1)
    drain(head, store, times(1)[0] + 2)
    assert stored(store) == [("GPU-a0", at_ms) for at_ms in times(0, 1)]
    assert any(f"{abs(ahead_ms) / 1000:.1f} s" in note for note in receipt.notes)
    with store.reader() as reader:
        assert [mark.ahead_ms for mark in read_node_marks(reader)] == [ahead_ms]


def test_a_clock_within_a_second_is_left_as_it_is(store: Store) -> None:
    head = head_of(store)
    node = Node(head, ahead_ms=-700)
    node.tick(START_MS)
    assert node.push(START_MS + 1).notes == ()
    drain(head, store, START_MS + 2)
    assert stored(store) == [("GPU-a0", START_MS - 700)]


def test_a_request_that_travelled_long_makes_no_clock_wrong(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    node.tick(START_MS)
    node.push(START_MS + 1, sent_ms=START_MS - 6_000, steady_ms=UP_MS - 6_000, echo_ms=START_MS - 12_000)
    drain(head, store, START_MS + 2)
    assert stored(store) == [("GPU-a0", START_MS)]


def test_a_clock_that_jumped_between_two_ticks_moves_neither(store: Store) -> None:
    head = head_of(store)
    node = Node(head, ahead_ms=50_000)
    node.tick(START_MS)
    node.ahead_ms = 0  # NTP came
    node.tick(times(1)[0])
    node.push(times(1)[0] + 1)
    drain(head, store, times(1)[0] + 2)
    assert stored(store) == [("GPU-a0", at_ms) for at_ms in times(0, 1)]


def test_the_future_and_the_distant_past_are_not_believed(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    node.tick(START_MS - OLDEST_MS - TICK_MS)
    node.tick(START_MS)
    node.tick(START_MS + 60_000)
    notes = node.push(START_MS + 1).notes
    drain(head, store, START_MS + 2)
    assert stored(store) == [("GPU-a0", START_MS)]
    assert [("48 hours old" in n, "in the future" in n) for n in notes] == [(True, False), (False, True)]


def test_a_page_that_cannot_be_read_costs_itself_alone(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    node.tick(START_MS, b"garbage{")
    node.tick(times(1)[0])
    receipt = node.push(times(1)[0] + 1)
    drain(head, store, times(1)[0] + 2)
    assert stored(store) == [("GPU-a0", times(1)[0])]
    assert "cannot be read" in receipt.notes[0]
    assert node.push(times(1)[0] + 3).stored == 2


def test_a_node_speaks_for_its_own_name_alone(store: Store) -> None:
    node = Node(head_of(store))
    node.tick(START_MS, page(START_MS, "gpu-b"))
    with pytest.raises(NotYours, match="GPUs of 'gpu-b'"):
        node.push(START_MS + 1)


def test_a_gpu_that_another_node_tells_of_stays_its(store: Store) -> None:
    head = head_of(store)
    first, second = Node(head), Node(head, name="gpu-b", machine="m2", spool="s2")
    first.tick(START_MS)
    first.push(START_MS + 1)
    drain(head, store, START_MS + 2)
    for who in (head, head_of(store)):  # also after a restart
        second.head, second.received = who, 0
        second.tick(START_MS + 5 + second.number, page(START_MS + 5, "gpu-b"))
        (note,) = second.push(START_MS + 100).notes
        assert "gpu-a tells of" in note
        assert drain(who, store, START_MS + 101).gpus == ()


def test_a_gpu_that_the_head_reads_itself_is_no_nodes(store: Store) -> None:
    head = head_of(store)
    own = Gpu(uuid=GpuUuid("GPU-a0"), node=NodeName("head"))
    local = Reading(source="nvml", at_ms=START_MS, gpus=(own,))
    head.stored(Tick(at_ms=START_MS, width_ms=TICK_MS, outcomes=(local,)))
    node = Node(head)
    node.tick(START_MS)
    assert "head tells of" in node.push(START_MS + 1).notes[0]
    assert head.read(START_MS + 2).samples == ()


def test_a_node_knows_no_lease_and_no_process_of_another(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    lines = page(START_MS, jobs=("pid:gpu-b/7@9", "fallow:7", "pid:gpu-a/7@9")).splitlines(keepends=True)
    leased = b"".join(
        line.replace(b'"process"', b'"lease"') if b"fallow:7" in line else line for line in lines
    )
    assert b'source="lease"' in leased
    node.tick(START_MS, leased)
    node.push(START_MS + 1)
    assert [each.holder.job for each in head.read(START_MS + 2).allocations or ()] == ["pid:gpu-a/7@9"]


def test_one_token_is_one_machines(store: Store) -> None:
    head = head_of(store)
    node, twin = Node(head), Node(head, machine="m2", spool="s2")
    node.push(START_MS)
    with pytest.raises(NotYours, match="used by another machine"):
        twin.push(START_MS + 1)
    twin.credential = "a new token"
    twin.push(START_MS + 2)


def test_a_spool_that_was_deleted_begins_anew_and_nothing_is_taken_for_stored(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    for at_ms in times(0, 1):
        node.tick(at_ms)
    node.push(times(1)[0] + 1)
    drain(head, store, times(1)[0] + 2)
    anew = Node(head, spool="s2")
    anew.tick(times(2)[0])
    assert anew.push(times(2)[0] + 1).received == 1
    drain(head, store, times(2)[0] + 2)
    assert stored(store) == [("GPU-a0", at_ms) for at_ms in times(0, 1, 2)]


def test_no_node_fills_the_head_and_none_waits_for_another(store: Store) -> None:
    head = head_of(store)
    greedy, modest = Node(head), Node(head, name="gpu-b", machine="m2", spool="s2")
    now_ms = times(2 * MOST_QUEUED)[0]
    for at_ms in times(*range(MOST_QUEUED)):
        greedy.tick(at_ms)
    assert not greedy.push(now_ms).is_full
    greedy.tick(times(MOST_QUEUED)[0])
    receipt = greedy.push(now_ms + 1)
    assert receipt.is_full
    assert receipt.received == MOST_QUEUED
    modest.tick(now_ms, page(now_ms, "gpu-b", tag="b"))
    modest.push(now_ms + 1)
    assert [gpu.node for gpu in head.read(now_ms + 2).gpus] == ["gpu-b"]


def test_a_node_that_is_silent_is_a_gap_until_it_is_heard(store: Store) -> None:
    head = head_of(store)
    node = Node(head)
    node.tick(START_MS)
    node.push(START_MS + 1)
    drain(head, store, START_MS + 2)
    drain(head, store, times(4)[0])
    assert gaps(store) == []
    for at_ms in times(5, 6):
        drain(head, store, at_ms)
    (gap,) = gaps(store)
    assert gap[:2] == (START_MS, times(6)[0])
    assert gap[2].startswith("node gpu-a was last heard 2027-01-15 08:00:00 UTC")
    for at_ms in times(*range(1, 8)):
        node.tick(at_ms)
    node.push(times(7)[0] + 1)
    drain(head, store, times(7)[0] + 2)
    assert gaps(store) == []


def test_what_a_node_of_0_1_0_sent_is_understood(store: Store) -> None:
    """A recorded body: it stays as it is, whatever nodes send later, for heads are upgraded first."""
    recorded = Path(__file__).with_name("batch_of_0_1_0.jsonl").read_bytes().strip()
    head = head_of(store)
    now_ms = times(1)[0] + 1
    key = NodeKey(node=NodeName("gpu-a"), credential="token")
    assert head.accept(key, zlib.compress(recorded), now_ms).received == 8
    drain(head, store, now_ms + 1)
    assert stored(store) == [("GPU-a0", at_ms) for at_ms in times(0, 1)]
    assert [job for job, _, _ in held(store)] == ["pid:gpu-a/7@9"]


def test_what_no_column_holds_of_a_late_holder_is_not_measured() -> None:
    """A number beyond a signed 64 bits costs the value, as for a GPU's own samples, and no tick."""
    sample = HolderSample(
        uuid=GpuUuid("GPU-a"), job=JobId("a"), at_ms=1, width_ms=10, memory_used_bytes=1 << 70
    )
    assert to_holder_table([sample]).column("memory_used_bytes").to_pylist() == [None]
