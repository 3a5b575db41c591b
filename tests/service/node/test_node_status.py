"""What `fallow status` says of machines that push: which is silent, and whose clock is wrong."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from service.cli.status import Picture, summary

if TYPE_CHECKING:
    from service.schemas.rows import NodesRow

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def lines(*nodes: "NodesRow") -> list[str]:
    now: dict[str, object] = dict.fromkeys(("idle_held_gpus", "free_gpus", "unknown_gpus"), 0.0)
    now |= {"gpus": 1.0, "as_of": "2026-11-26T12:00:00", "power_w": None, "held_gpus": 0.0, "used_gpus": 0.0}
    picture = Picture(
        cluster=now, gpus=[], open_findings=0, late=None, sight="here", at=NOW, nodes=tuple(nodes)
    )
    return [line.plain for line in summary(picture) if "node " in line.plain]


def node(silent_s: float | None = 1.0, ahead_s: float = 0.0) -> "NodesRow":
    return {
        "node": "gpu-a",
        "last_ts": None if silent_s is None else "2026-11-26T11:50:00",
        "silent_s": silent_s,
        "clock_ahead_s": ahead_s,
        "lost_ticks": 0,
        "version": "0.1.0",
    }


def test_who_is_well_leaves_no_line() -> None:
    assert lines(node()) == []


def test_who_is_silent_is_named_with_when_it_was_heard() -> None:
    (line,) = lines(node(600))
    assert "node gpu-a was last heard" in line
    assert "11:50" in line
    assert "never" in lines(node(None))[0]


def test_a_wrong_clock_is_named_with_its_side() -> None:
    assert "37 s ahead of" in lines(node(ahead_s=37))[0]
    assert "1 h behind" in lines(node(ahead_s=-3600))[0]
