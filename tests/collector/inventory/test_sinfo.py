"""Nodes that Slurm gives to nobody: sinfo's lines, what becomes of their GPUs, and a Slurm that is silent."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analytics.query import run
from collector.attribution import effective
from collector.inventory.sinfo import reason_of, state_of
from collector.model import (
    ClaimSource,
    Holder,
    JobId,
    NodeClaim,
    NodeName,
    NodeState,
    OutOfService,
    Unavailable,
    Withheld,
)
from collector.reading import Reading, Tick
from collector.scrape_loop import Loop, LoopDependencies, Timing
from collector.store.database import Store
from collector.store.withheld import given_out
from tests.collector.loop.test_loop_ticks import HandClock, Scripted
from tests.collector.store.store_parts import ask, at_path, empty, gpu, sample, uuid
from tests.stores import open_store

N1, N2 = NodeName("n1"), NodeName("n2")
MINUTE_MS = 60_000

LINES = """\
n1|idle|Unknown|none
n1|mixed|Unknown|none
n2|drained|root|bad DIMM, slot | 3
n3|draining@|ann|none
n4|down*|root|Not responding
n5|idle*|Unknown|none
n6|reserved|Unknown|none
n7|maint|Unknown|none
n8|mixed$|Unknown|none
n9|planned|Unknown|none
n10|idle~|Unknown|none
n11|some new word|Unknown|none
"""
"""As Slurm 22.05.8 prints them (n1 to n4 seen on 25 November 2026); flags of sinfo(1)."""


def test_sinfo_says_which_nodes_are_given_to_nobody() -> None:
    found = {}
    for line in LINES.splitlines():
        node, told, user, reason = line.split("|", 3)
        state = state_of(told)
        found[node] = (state, "" if state is None else reason_of(user, reason))
    assert found == {
        "n1": (None, ""),
        "n2": (OutOfService.DRAINED, "bad DIMM, slot | 3 by root"),
        "n3": (OutOfService.DRAINED, "by ann"),
        "n4": (OutOfService.DOWN, "Not responding by root"),
        "n5": (OutOfService.DOWN, ""),
        "n6": (OutOfService.RESERVED, ""),
        "n7": (OutOfService.RESERVED, ""),
        "n8": (OutOfService.RESERVED, ""),
        "n9": (None, ""),
        "n10": (None, ""),
        "n11": (None, ""),
    }


def two_gpus(at_ms: int, used: tuple[int, ...] = ()) -> Reading:
    """GPU 0 of n1.lab and GPU 1 of n2, both with nothing on them but for those ``used``."""
    return Reading(
        source="nvml",
        at_ms=at_ms,
        gpus=(gpu(0, node=NodeName("n1.lab")), gpu(1, node=N2)),
        samples=tuple(sample(n, at_ms) if n in used else empty(n, at_ms) for n in (0, 1)),
        processes=(),
    )


def claim(node: NodeName, number: int) -> NodeClaim:
    return NodeClaim(node=node, holder=Holder(job=JobId("slurm:7")), index=number, source=ClaimSource.SLURM)


def test_gpu_of_a_drained_node_is_withheld_unless_a_job_still_has_it() -> None:
    drained = NodeState(node=N1, state=OutOfService.DRAINED, reason="bad DIMM by root")
    slurm = Reading(source="slurm", at_ms=0, claims=(), nodes=(drained, NodeState(node=N2)))
    found = effective([two_gpus(0), slurm], 0)
    assert found is not None
    assert found.withheld == (Withheld(uuid=uuid(0), state=OutOfService.DRAINED, reason="bad DIMM by root"),)
    held = effective([two_gpus(0), replace(slurm, claims=(claim(N1, 0),))], 0)
    assert held is not None and held.withheld == ()


def play(store: Store, minutes: int, slurm: Scripted, clock: HandClock, *, knows: bool = False) -> Tick:
    """So many minutes of ticks into the store; the last one. ``knows``: with what the store remembers."""
    nvml = Scripted("nvml", two_gpus)
    with store.reader() as reader:
        known = given_out(reader, clock.now_ms()) if knows else {}
    ports = LoopDependencies(
        sources=(nvml,), inventories=(slurm,), given_out=known, attribute=effective, sink=store.write_tick
    )
    loop = Loop(ports, clock=clock, timing=Timing(tick_ms=30_000))
    for _ in range(2 * minutes):
        clock.at_ms += 30_000
        tick = loop.tick_once()
    return tick


def answering(now_ms: int) -> Reading:
    nodes = (NodeState(node=N1), NodeState(node=N2, state=OutOfService.DRAINED, reason="bad DIMM by root"))
    return Reading(source="slurm", at_ms=now_ms, claims=(claim(N1, 0),), nodes=nodes)


def silent(now_ms: int) -> Unavailable:
    return Unavailable(source="slurm", at_ms=now_ms, reason="squeue has no answer from Slurm")


def now(store: Store, question: str = "gpus_now") -> list[dict[str, object]]:
    with store.reader() as reader:
        rows: list[dict[str, object]] = run(reader, question, {}).to_pylist()
    return rows


@pytest.mark.slow
def test_drained_gpu_is_in_a_state_of_its_own_and_neither_free_nor_wasted(tmp_path: Path) -> None:
    clock = HandClock()
    with open_store(at_path(tmp_path)) as store:
        play(store, 10, Scripted("slurm", answering), clock)
        states = {row["uuid"]: (row["state"], row["state_reason"]) for row in now(store)}
        assert states == {uuid(0): ("allocated-empty", None), uuid(1): ("drained", "bad DIMM by root")}
        (cluster,) = now(store, "cluster_now")
        assert (cluster["free_gpus"], cluster["withheld_gpus"], cluster["unknown_gpus"]) == (0, 1, 0)
        assert cluster["withheld_because"] == "1 drained (bad DIMM by root)"
        assert ask(
            store, "SELECT DISTINCT free_ms, allocated_empty_ms, unknown_ms FROM rollup_1m WHERE gpu_id = 2"
        ) == [(0, 0, 0)]
        end = datetime.fromtimestamp(clock.at_ms // MINUTE_MS * 60, UTC)
        window = {"from_ts": end - timedelta(hours=1), "to_ts": end}
        with store.reader() as reader:
            rows = run(reader, "ledger_by_state", window).to_pylist()
            (node,) = (row for row in run(reader, "ledger_by_node", window).to_pylist() if row["key"] == N2)
        hours = {row["state"]: row["gpu_hours"] for row in rows}
        assert hours["withheld"] == node["withheld_gpu_hours"] == pytest.approx(8 / 60, abs=1.5 / 60)
        assert (hours["free"], hours["held-idle"]) == (0.0, 0.0)
        assert sum(hours.values()) == pytest.approx(sum(row["gpu_hours"] for row in rows))
        with store.reader() as reader:
            taken = {
                row["uuid"]: row["is_taken"]
                for row in run(reader, "decide_gpus", {"as_of": clock.at_ms}).to_pylist()
            }
        assert taken == {uuid(0): False, uuid(1): None}, "nobody may be given it"


@pytest.mark.slow
@pytest.mark.parametrize("claimed", [False, True], ids=["without a job", "with a job"])
def test_gpu_of_a_node_that_is_down_and_silent_is_withheld_unless_a_job_has_it(
    tmp_path: Path, claimed: bool
) -> None:
    """n2's exporter is gone with the node and forgotten after ten minutes; Slurm says on that it is down."""
    clock = HandClock()
    began_ms = clock.at_ms
    gone_ms = began_ms + 5 * MINUTE_MS

    def one(at_ms: int) -> Reading:
        return replace(two_gpus(at_ms), gpus=two_gpus(at_ms).gpus[:1], samples=two_gpus(at_ms).samples[:1])

    def other(at_ms: int) -> Reading | Unavailable:
        if at_ms > gone_ms:
            return Unavailable(source="dcgm", at_ms=at_ms, reason="no route to host")
        whole = two_gpus(at_ms)
        return replace(whole, source="dcgm", gpus=whole.gpus[1:], samples=whole.samples[1:])

    def slurm(at_ms: int) -> Reading:
        state = OutOfService.DOWN if at_ms > gone_ms else None
        nodes = (
            NodeState(node=N1),
            NodeState(node=N2, state=state, reason="Not responding" if state else ""),
        )
        return Reading(source="slurm", at_ms=at_ms, claims=(claim(N2, 1),) if claimed else (), nodes=nodes)

    with open_store(at_path(tmp_path)) as store:
        ports = LoopDependencies(
            sources=(Scripted("nvml", one), Scripted("dcgm", other)),
            inventories=(Scripted("slurm", slurm),),
            attribute=effective,
            sink=store.write_tick,
        )
        loop = Loop(ports, clock=clock, timing=Timing(tick_ms=30_000))
        for _ in range(2 * 40):
            clock.at_ms += 30_000
            loop.tick_once()
        (row,) = (row for row in now(store) if row["uuid"] == uuid(1))
        (sums,) = ask(
            store,
            "SELECT sum(withheld_ms), sum(unknown_ms), sum(free_ms) FROM rollup_1m WHERE gpu_id = 2 "
            "AND ts >= epoch_ms(?::BIGINT)",
            gone_ms + MINUTE_MS,
        )
        (most,) = ask(
            store,
            "SELECT max(ms) FROM (SELECT sum(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms "
            "+ moderate_ms + good_ms + suspect_ms + withheld_ms + unknown_ms) AS ms FROM rollup_1m "
            "GROUP BY ts, gpu_id)",
        )
    assert most == (MINUTE_MS,)
    if claimed:
        assert row["state"] == "unknown" and not sums[0], "a job has it, whatever it does"
    else:
        assert (row["state"], row["state_reason"]) == ("down", "Not responding")
        assert sums[0] == pytest.approx(32 * MINUTE_MS, abs=2 * MINUTE_MS) and sums[1:] == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("anew", [False, True], ids=["the same service", "a service that began meanwhile"])
def test_slurm_that_is_silent_beyond_its_memory_frees_no_gpu(tmp_path: Path, anew: bool) -> None:
    clock = HandClock()
    with open_store(at_path(tmp_path)) as store:
        source = Scripted("slurm", answering)
        if anew:
            play(store, 5, source, clock)
            source = Scripted("slurm", silent)
        else:
            began_ms = clock.at_ms
            source = Scripted(
                "slurm",
                lambda now_ms: answering(now_ms) if now_ms < began_ms + 5 * MINUTE_MS else silent(now_ms),
            )
        tick = play(store, 25, source, clock, knows=True)
        assert tick.allocations == ()
        assert {each.state for each in tick.withheld} == {OutOfService.UNASKED}
        assert all("no answer from slurm since" in each.reason for each in tick.withheld)
        assert {row["state"] for row in now(store)} == {"unknown"}
        (cluster,) = now(store, "cluster_now")
        assert (cluster["free_gpus"], cluster["unknown_gpus"]) == (0, 2)
        assert ask(store, "SELECT sum(free_ms) FROM rollup_1m") == [(0,)]
        answers = play(store, 2, Scripted("slurm", answering), clock)
        assert [each.state for each in answers.withheld] == [OutOfService.DRAINED]
        assert [row["state"] for row in now(store)] == ["allocated-empty", "drained"]


def test_without_slurm_a_free_gpu_is_free(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        play(store, 5, Scripted("slurm", silent), HandClock(), knows=True)
        assert {row["state"] for row in now(store)} == {"free"}
