"""``fallow status``: what every GPU does now, and for whom; ``--watch`` keeps showing it."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from analytics import text
from analytics.vocabulary.states import WITHHELD, GpuState
from collector.gpu_place import places_apart
from service.cli import freshness, words
from service.cli.asking import SIMULATED, asked
from service.cli.screen import Column, console, place, print_json, state_text, table
from service.cli.status_by import parts_of, parts_table, record_of
from service.client import Client, connect
from service.durations import STALE_S, parse_span, window
from service.summaries import pushing_nodes
from service.summaries.finding_groups import grouped
from service.wording import (
    AT_MOST,
    activity,
    at_most,
    copies,
    is_bound,
    state_coloured,
    state_shown,
    upper_bound,
)

if TYPE_CHECKING:
    from service.cli.status_by import Key
    from service.schemas.rows import ClusterNowRow, GpusNowRow, NodesRow
    from service.schemas.service import ComponentHealth, Health

FILTERS = ("node", "project", "user", "model")
BAD = ("failing", "late")
AGED = ("sampler", "source", "store", "cycle", "alerts", "delivery")
"""Components whose ages are shown while they are well; of the others only what is not well."""
STALE = "Nothing was measured for {span}: what follows is how it was at {then}; how it is now is unknown."
RECORDED = "{remark}: what follows is how it was at {then}."
MOST_NODES = 5
"""Lines about nodes at the head of the screen; the query `nodes` has all of them."""
RUNG_MARKS = {1: AT_MOST, 2: "~"}
"""GPU utilization is an upper bound, graphics-engine activity an approximation; SM active needs no mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What one look brought."""

    cluster: "ClusterNowRow | None"
    gpus: "list[GpusNowRow]"
    open_findings: int
    late: str | None
    sight: str
    at: datetime
    nodes: "tuple[NodesRow, ...]" = ()
    """Machines that push what they measure."""
    components: "tuple[ComponentHealth, ...]" = ()
    """How each component of the service fares, as ``/healthz`` says it; none where no service runs."""
    remark: str | None = None
    """What a service that is well says of itself, as that the recording has ended."""


def run_status(flags: argparse.Namespace) -> int:
    """Print it once, or keep showing it."""
    filters = {name: getattr(flags, name) for name in FILTERS}
    if flags.watch:
        return _watch(flags, filters)
    with asked(flags) as client:
        if flags.json:
            rows = client.rows("gpus_now", **filters)
            rows_shown = (
                rows if flags.by is None else [record_of(each, flags.by) for each in parts_of(rows, flags.by)]
            )
            print_json(rows_shown, flags)
            return 0
        picture = look(client, filters)
    chosen = {name: value for name, value in filters.items() if value is not None}
    console().print(draw(picture, by=flags.by) if picture.gpus or not chosen else _no_match(chosen))
    return 0


def look(client: Client, filters: dict[str, object]) -> Picture:
    """Ask all that the screen shows. Raises ``ClientError``."""
    health = client.health() if client.mode == "service" else None
    clusters = client.rows("cluster_now", **filters)
    # Nodes of two clusters may have one name: the start of the UUID then tells their GPUs apart.
    gpus = client.rows("gpus_now", **filters)
    places = places_apart((gpu["node"], gpu["gpu_place"], gpu["uuid"]) for gpu in gpus)
    return Picture(
        cluster=clusters[0] if clusters else None,
        gpus=[{**gpu, "gpu_place": places[gpu["uuid"]]} for gpu in gpus],
        open_findings=_open_findings(client, filters),
        late=freshness.lateness(client, datetime.now(UTC)),
        sight=_sight(client, health),
        at=datetime.now(UTC),
        nodes=tuple(client.rows_if_kept("nodes") or ()),
        components=health.components if health is not None else (),
        remark=None if health is None else health.remark,
    )


def draw(picture: Picture, rows: int | None = None, by: "Key | None" = None) -> RenderableType:
    """The screen; at most so many GPUs, those that need a look first, when ``rows`` is given.

    With ``by`` a row for each user, node or project.
    """
    if not picture.gpus:
        return Text("No GPU has been seen yet. A service measures every few seconds: see `fallow doctor`.")
    if by is not None:
        parts = parts_of(picture.gpus, by)
        instances = any(gpu["mig_profile"] for gpu in picture.gpus)
        fit = parts if rows is None or len(parts) <= rows else parts[: max(rows - 1, 1)]
        hidden = [Text(f"and {len(parts) - len(fit)} more", style="bright_black")] * (len(fit) < len(parts))
        return Group(*summary(picture), Text(), parts_table(fit, by, instances=instances), *hidden)
    shown = picture.gpus
    rest = 0
    if rows is not None and len(shown) > rows:
        shown, rest = sorted(shown, key=_urgency)[: max(rows - 1, 1)], len(shown) - max(rows - 1, 1)
    more = [
        Text(f"and {rest} more GPUs; a taller terminal, --node or --user shows them", style="bright_black")
    ]
    # Up to when states are known to have lasted: what was not measured since then is not of them.
    as_of = None if picture.cluster is None else picture.cluster["as_of"]
    rows_shown = gpus_table(shown, picture.at if as_of is None else words.moment(as_of))
    return Group(
        *summary(picture),
        Text(),
        rows_shown,
        *copying_lines(shown),
        *(more if rest else []),
        *_bounds(picture),
    )


def _bounds(picture: Picture) -> list[Text]:
    """What the marks on use mean, where there are any."""
    used = None if picture.cluster is None else picture.cluster.get("bound_used_gpus")
    return [Text(upper_bound(), style="bright_black")] if is_bound(used) else []


def copying_lines(gpus: "list[GpusNowRow]") -> list[Text]:
    """A line for each GPU that shows no use and is not idle all the same; an older service tells of none."""
    pairs = ((place(gpu), copies(gpu.get("copies_ratio"))) for gpu in gpus)
    return [Text(f"{where} {what}", style="bright_black") for where, what in pairs if what]


def _no_match(chosen: dict[str, object]) -> Text:
    filters = " ".join(f"--{name} {value}" for name, value in chosen.items())
    return Text(f"No GPU matches {filters}; without it, `fallow status` shows all of them.")


def _watch(flags: argparse.Namespace, filters: dict[str, object]) -> int:
    import time

    from rich.live import Live

    from service.client import ClientError

    every_s = parse_span(flags.every).total_seconds()
    screen = console()
    with Live(console=screen, screen=screen.is_terminal, auto_refresh=False) as live:
        while True:
            try:
                with connect(flags.data).for_people() as client:
                    drawn = _marked(
                        client, draw(look(client, filters), rows=max(screen.height - 8, 3), by=flags.by)
                    )
            except ClientError as error:
                drawn = Text(f"{error}\n\nLooking again every {every_s:g} s; Ctrl-C ends.", style="yellow")
            live.update(drawn, refresh=True)
            time.sleep(every_s)


def _marked(client: Client, drawn: RenderableType) -> RenderableType:
    """A screen that is drawn again and again: on each, what the filters say once."""
    return Group(Text(SIMULATED, style="bold yellow"), drawn) if client.is_simulated() else drawn


def summary(picture: Picture, *, ages: bool = True) -> list[Text]:
    """The lines at the head of the screen: how many GPUs, as of when, given out, used, and what is wrong.

    Last, with ``ages``, how long ago each component of the service was well.
    """
    now = picture.cluster
    if now is None:
        return []
    total = now["gpus"] or 0
    age_s = words.since(now["as_of"], picture.at)
    stale = age_s is None or age_s > STALE_S
    age = Text(f"{text.length(age_s)} ago", style="yellow" if stale else "")
    head = Text.assemble((text.many(total, "GPU"), "bold"), " · ", age, f" · {picture.sight}")
    power = f" · {text.watts(now['power_w'])}" if now["power_w"] is not None else ""
    withheld, rare = now.get("withheld_gpus") or 0, now.get("rarely_used_gpus") or 0
    counts = Text.assemble(
        ("then: ", "yellow") if stale else "",
        (f"{text.count(now['idle_held_gpus'])} held and idle", "red" if now["idle_held_gpus"] else ""),
        (f" · {text.count(rare)} rarely used" if rare else "", "yellow"),
        f" · {text.count(now['free_gpus'])} free",
        f" · {text.count(withheld)} withheld" if withheld else "",
        f" · {text.count(now['unknown_gpus'])} unknown{power} · ",
        (f"{picture.open_findings} open findings", "yellow" if picture.open_findings else ""),
        (f", {picture.late}" if picture.late else "", "yellow"),
    )
    since, at = text.length(age_s), words.clock_time(now["as_of"])
    says = STALE.format(span=since, then=at)
    if picture.remark:
        says = RECORDED.format(remark=picture.remark[0].upper() + picture.remark[1:], then=at)
    then = [Text(says, style="bold yellow")] if stale else []
    return [
        head,
        *then,
        _meter("given out", now["held_gpus"], total, "blue"),
        _meter("really used", now["used_gpus"], total, "green", bound=now.get("bound_used_gpus")),
        counts,
        *([Text(f"withheld: {why}")] if (why := now.get("withheld_because")) else []),
        *_of_nodes(picture.nodes, picture.at),
        *([notes] if ages and (notes := _ages(picture.components)) else []),
    ]


def _of_nodes(nodes: "Sequence[NodesRow]", at: datetime) -> list[Text]:
    """The machines that push, in a line; a line for each that is silent or whose clock is wrong."""
    if not nodes:
        return []
    node_words = pushing_nodes.of_nodes(nodes, at, words.clock_time)
    trouble = [line for node in node_words for line in node.trouble]
    return [
        Text(pushing_nodes.in_a_line(nodes, at, MOST_NODES)),
        *(Text(line, style="yellow") for line in trouble[:MOST_NODES]),
    ]


def _meter(name: str, part: float | None, total: float, style: str, *, bound: float | None = None) -> Text:
    ratio = None if part is None or not total else part / total
    amount = f"{at_most(text.gpus(part), bound)} of {text.gpus(total)}"
    return Text.assemble(
        f"{name:12}", f"{amount:>12}  ", (words.bar(ratio, 40), style), f" {text.percent(ratio):>4}"
    )


def gpus_table(gpus: "list[GpusNowRow]", now: datetime, width: int | None = None) -> RenderableType:
    """A row a GPU; who holds it is never cut: where there is no room beside it, it stands below."""
    columns = [
        Column(title="GPU"),
        Column(title="state"),
        Column(title="for", right=True),
        Column(title="busy", right=True),
        Column(title="", spare=1),
        Column(title="memory", right=True),
        Column(title="power", right=True, spare=2),
        Column(title="user"),
        Column(title="job", below=True),
    ]
    return table(columns, [_line(gpu, now) for gpu in gpus], width=width)


def _line(gpu: "GpusNowRow", now: datetime) -> list[str | Text]:
    rhythm = gpu.get("rhythm")
    state = state_text(state_shown(gpu["state"], rhythm))
    since = gpu["state_since"] if rhythm is None else gpu["rhythm_since"]
    is_least = rhythm is not None or gpu.get("state_since_is_bound")
    lasted = text.length_cell(words.since(since, now))
    busy = activity(gpu["utilization_ratio"], gpu["engines_ratio"])
    is_of_rung = bool(busy) and busy == gpu["utilization_ratio"]
    mark = RUNG_MARKS.get(gpu["rung"] or 0, "") if is_of_rung else ""
    return [
        place(gpu),
        state,
        f"{'≥' if is_least else ''}{lasted}",
        f"{mark}{text.percent(busy)}",
        Text(words.bar(busy, 8), style=state.style),
        text.memory(gpu["memory_used_bytes"], gpu["memory_total_bytes"]),
        text.watts(gpu["power_w"]),
        gpu["user_name"] or "",
        gpu["job_name"] or gpu["job"] or words.localized(gpu.get("state_reason") or ""),
    ]


def _urgency(gpu: "GpusNowRow") -> int:
    order = (
        GpuState.SUSPECT,
        GpuState.HELD_IDLE,
        GpuState.ALLOCATED_EMPTY,
        GpuState.UNKNOWN,
        GpuState.LOW_SATURATION,
        GpuState.MODERATE,
        GpuState.GOOD,
        *WITHHELD,
        GpuState.FREE,
    )
    state = state_coloured(gpu["state"], gpu.get("rhythm"))
    return order.index(GpuState(state)) if state in order else 0


def _open_findings(client: Client, filters: dict[str, object]) -> int:
    start, end = window("1d", None, datetime.now(UTC) + timedelta(minutes=1))
    rows = client.rows("findings", open=True, from_ts=start, to_ts=end, **filters)
    return len(grouped(rows, lambda row: (row["kind"], row["job"], True)))


def _sight(client: Client, health: "Health | None") -> str:
    if health is None:
        return "no service runs: this is what the store holds"
    return f"{client.url}" if health.status == "ok" else f"{health.status}: {health.reason}"


def _ages(components: "Sequence[ComponentHealth]") -> Text:
    """How long ago each component last succeeded; one that is late or fails in red."""
    parts: list[str | tuple[str, str]] = []
    shown = (each for each in components if each.name.partition(":")[0] in AGED or each.state in BAD)
    for each in shown:
        ago = "not yet" if each.age_s is None else text.length(each.age_s)
        style = "red" if each.state in BAD else "bright_black"
        parts += [(f"{each.name} {ago}", style), " · "]
    return Text.assemble("last well: ", *parts[:-1]) if parts else Text()
