"""Alerts about what Fallow doesn't see: sources, nodes, a service without ticks, one that was away. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from analytics import text
from service.alerts.facts import Facts
from service.alerts.model import WORSE, WORTH_A_WORD, AlertKind, Condition, Evaluation
from service.config.alerting import AlertsConfig

STALE_TICKS = 3
AWAY_MS = 600_000
"""A case of a service that was away is open at least for so long, once it could be told."""


def blindness(facts: Facts, config: AlertsConfig) -> Evaluation:
    """Sources that cannot be read, nodes of which no GPU is measured, a service without ticks, and one that
    was away.

    While a source is blind, nodes that fall silent with it are no cases of their own.
    """
    prefix, blind_ms = f"{AlertKind.COLLECTOR_BLIND.value}:", config.blind_s * 1000
    holds: dict[str, Condition] = {}
    for each in facts.blind:
        if facts.now_ms - each.since_ms >= blind_ms:
            key = f"{prefix}source:{each.source}"
            says = f"{each.source} cannot be read since {text.clock(each.since_ms)}: {each.reason}."
            holds[key] = _blind(key, f"Fallow cannot read its source {each.source}", says, each.since_ms)
    if is_stale(facts, config):
        holds |= _no_ticks(facts, prefix)
    silent = _silent_nodes(facts, blind_ms)
    nodes = {f"{prefix}node:{node}" for node in facts.newest_ms}
    unknown = nodes & {f"{prefix}node:{node}" for node in silent} if holds else set()
    for node, since_ms in () if holds else silent.items():
        key = f"{prefix}node:{node}"
        since = "for ten minutes or more" if since_ms is None else f"since {text.clock(since_ms)}"
        says = f"No GPU of {node} was measured {since}; what they do is unknown."
        title = f"Fallow measures nothing on {node}"
        holds[key] = _blind(key, title, says, facts.now_ms if since_ms is None else since_ms, node)
    calm = dict.fromkeys(nodes, "its GPUs are measured again")
    holds |= _was_away(facts, config, prefix)
    calm[f"{prefix}away"] = "it has measured ever since"
    return Evaluation(at_ms=facts.now_ms, holds=holds, unknown=frozenset(unknown), calm=calm)


def is_stale(facts: Facts, config: AlertsConfig) -> bool:
    """Whether the newest tick is so old that nothing is known of now."""
    if facts.last_tick_ms is None:
        return True
    return facts.now_ms - facts.last_tick_ms > max(STALE_TICKS * facts.tick_ms, config.blind_s * 1000)


def _no_ticks(facts: Facts, prefix: str) -> Mapping[str, Condition]:
    key, last_ms = f"{prefix}ticks", facts.last_tick_ms
    says = "Nothing was measured since this service began."
    if last_ms is not None:
        due = f"one is due every {facts.tick_ms / 1000:g} s"
        says = f"The newest measurement is of {text.clock(last_ms)}; {due}."
    condition = _blind(
        key, "Fallow measures nothing at all", says, facts.now_ms if last_ms is None else last_ms
    )
    return {key: replace(condition, level=WORSE)}


def _was_away(facts: Facts, config: AlertsConfig, prefix: str) -> Mapping[str, Condition]:
    """News for as long as it takes to be told, and AWAY_MS more: then it is over."""
    away, key = facts.away, f"{prefix}away"
    if away is None or away.to_ms - away.from_ms < config.blind_s * 1000:
        return {}
    if facts.now_ms - away.to_ms > config.opens_after_s * 1000 + AWAY_MS:
        return {}
    says = f"Fallow was not running from {text.clock(away.from_ms)} to {text.clock(away.to_ms)}."
    later = "It measures again. What was done in between is unknown: nobody is judged on it."
    return {key: replace(_blind(key, "Nothing was measured for a while", says, away.from_ms), next=later)}


def _silent_nodes(facts: Facts, blind_ms: int) -> dict[str, int | None]:
    """The nodes of which no GPU was measured lately, and their newest sample, ``None``: long ago."""
    silent: dict[str, int | None] = {}
    for node, newest in sorted(facts.newest_ms.items()):
        times = [at_ms for at_ms in newest if at_ms is not None]
        if not newest or any(facts.now_ms - at_ms < blind_ms for at_ms in times):
            continue
        silent[node] = max(times, default=None)
    return silent


def _blind(key: str, title: str, says: str, since_ms: int, node: str | None = None) -> Condition:
    return Condition(
        key=key,
        kind=AlertKind.COLLECTOR_BLIND,
        level=WORTH_A_WORD,
        rung="blind",
        since_ms=since_ms,
        title=title,
        says=says,
        next="What is not measured is unknown: nobody is judged on it, and nothing is done to anybody there.",
        do="fallow doctor",
        node=node,
    )
