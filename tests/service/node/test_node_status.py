"""What `fallow status` and `fallow doctor` say of machines that push: last push, spool, silence, clock."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from service.cli.status import Picture, summary
from service.doctor_checks.checks import MOST_NODES, pushed_nodes
from service.doctor_checks.results import Verdict

if TYPE_CHECKING:
    from service.schemas.rows import NodesRow

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def lines(*nodes: "NodesRow") -> list[str]:
    now: dict[str, object] = dict.fromkeys(("idle_held_gpus", "free_gpus", "unknown_gpus"), 0.0)
    now |= {"gpus": 1.0, "as_of": "2026-11-26T12:00:00", "power_w": None, "held_gpus": 0.0, "used_gpus": 0.0}
    picture = Picture(
        cluster=now, gpus=[], open_findings=0, late=None, sight="here", at=NOW, nodes=tuple(nodes)
    )
    return [line.plain for line in summary(picture) if line.plain.startswith(("node", "the clock"))]


def node(
    silent_s: float | None = 1.0,
    ahead_s: float = 0.0,
    *,
    name: str = "gpu-a",
    spool: tuple[int, float] | None = (1, 0.1),
) -> "NodesRow":
    return {
        "node": name,
        "last_ts": None if silent_s is None else "2026-11-26T11:50:00",
        "silent_s": silent_s,
        "clock_ahead_s": ahead_s,
        "lost_ticks": 0,
        "version": "0.1.0",
        "pushed_ts": "2026-11-26T11:59:56",
        "waiting_ticks": None if spool is None else spool[0],
        "spool_age_s": None if spool is None else spool[1],
    }


def test_each_machine_is_named_with_its_last_push() -> None:
    assert lines() == []
    assert lines(node(), node(name="gpu-b")) == ["nodes: gpu-a pushed 4 s ago, gpu-b pushed 4 s ago"]


def test_many_machines_are_a_line_and_who_has_trouble_is_in_it() -> None:
    (line, trouble) = lines(*(node(name=f"n{i}") for i in range(9)), node(600, name="lost"))
    assert line.startswith("nodes: lost pushed")
    assert line.endswith("and 5 more (`fallow doctor`)")
    assert trouble.startswith("node lost was last heard")


def test_a_spool_that_is_behind_is_told_with_its_age() -> None:
    (line,) = lines(node(spool=(72, 720)))
    assert line == "nodes: gpu-a pushed 4 s ago (its spool then held 72 ticks, the oldest 12 min old)"
    assert lines(node(spool=None)) == ["nodes: gpu-a pushed 4 s ago"]


def test_who_is_silent_is_named_with_when_it_was_heard() -> None:
    (_, line) = lines(node(600))
    assert "node gpu-a was last heard" in line
    assert "11:50" in line
    assert "never" in lines(node(None))[1]


def test_a_wrong_clock_is_named_with_its_side() -> None:
    assert "37 s ahead of" in lines(node(ahead_s=37))[1]
    assert "1 h behind" in lines(node(ahead_s=-3600))[1]


def test_the_doctor_has_a_row_a_machine_and_counts_the_rest() -> None:
    few = list(pushed_nodes([node(), node(600, name="gpu-b")], NOW))
    assert [(each.subject, each.verdict) for each in few] == [
        ("node gpu-b", Verdict.LIMITED),
        ("node gpu-a", Verdict.GOOD),
    ]
    assert few[0].advice.startswith("node gpu-b was last heard 2026-11-26 11:50:00 UTC")
    many = list(pushed_nodes([node(600, name=f"n{i}") for i in range(MOST_NODES + 2)], NOW))
    assert len(many) == MOST_NODES + 1
    assert many[-1].found.startswith("2 more push; 2 of them are silent")
