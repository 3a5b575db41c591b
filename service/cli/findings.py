"""``fallow findings``: what is wasted or broken, for how long, and the evidence in a sentence.

With ``--patterns`` how each holder works, as a table; with other flags what was not judged, or intruders.
"""

import argparse
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from analytics import text
from analytics.vocabulary.findings import KINDS, FindingKind, words_of_kind
from service import energy, wording
from service.cli import freshness, words
from service.cli.asking import asked
from service.cli.colours import FINDING_STYLES, PATTERN_STYLES, PLAIN
from service.cli.screen import Column, console, place, print_json, table
from service.durations import parse_point, window
from service.summaries.finding_groups import About, by_kind, grouped, once_a_job, others

if TYPE_CHECKING:
    from service.schemas.rows import FindingsRow, IntrusionsRow, PatternsRow, UnjudgedRow, WasteRow

ENGINES = "video"
ON_ENGINES = "video: worked on video engines, of which the SMs' use says nothing"

PATTERN_COLUMNS = (
    Column(title="user"),
    Column(title="job", below=True),
    Column(title="works in"),
    Column(title="measured", right=True, spare=4),
    Column(title="active", right=True),
    Column(title="used then", right=True),
    Column(title="runs", right=True, spare=3),
    Column(title="longest", right=True, spare=2),
    Column(title="longest gap", right=True, spare=1),
)


def draw(rows: "list[PatternsRow]") -> RenderableType:
    """A row a holder; under the table what could not be said of whom, and why."""
    if not rows:
        return Text("No pattern was judged yet: a service judges them each minute.")
    engines = [Text(ON_ENGINES, style="bright_black")] if any(_on_engines(row) for row in rows) else []
    doubts = [Text(f"{_name(row)}: {row['reason']}", style="bright_black") for row in rows if row["reason"]]
    return Group(table(PATTERN_COLUMNS, [_line(row) for row in rows]), *engines, *doubts)


def _line(row: "PatternsRow") -> list[str | Text]:
    numbers = _numbers(row)
    return [
        row["user_name"] or "",
        _name(row),
        Text(row["kind"], style=PATTERN_STYLES.get(row["kind"], "")),
        text.coverage(numbers.get("coverage_ratio")),
        text.percent(numbers.get("active_ratio")),
        ENGINES if _on_engines(row) else text.percent(numbers.get("utilization_active_mean_ratio")),
        text.count(numbers.get("runs")),
        _length(numbers.get("run_longest_minutes")),
        _length(numbers.get("gap_longest_minutes")),
    ]


def _numbers(row: "PatternsRow") -> Mapping[str, float]:
    numbers: Mapping[str, float] = json.loads(row["evidence"] or "{}")
    return numbers


def _on_engines(row: "PatternsRow") -> bool:
    return bool(_numbers(row).get("on_engines"))


def _name(row: "PatternsRow") -> str:
    return str(row["job_name"] or row["job"])


def _length(minutes: float | None) -> str:
    return text.NOTHING if minutes is None else text.length_cell(minutes * 60)


ABOUT: Mapping[str, str] = {FindingKind.INTRUDER: "given to ", FindingKind.UNPROVEN_CLAIM: "claimed by "}
"""What the person in a finding's first line is to it, where it isn't what that person does with the GPU."""

MOST_REASONS = 3


def run_findings(flags: argparse.Namespace) -> int:
    """Print them, the dearest first."""
    start, end = _window(flags)
    filters = {name: getattr(flags, name) for name in ("node", "project", "user", "model")}
    only_open = None if flags.all else True
    with asked(flags) as client:
        if flags.unknown:
            return _list_unjudged(client.rows("unjudged", **filters), flags)
        if flags.intruders:
            which = {"from_ts": start, "to_ts": end, "open": only_open, **filters}
            return _list_intruders(client.rows("intrusions", **which), flags)
        if flags.patterns:
            return _list_patterns(client.rows("patterns", **filters), flags)
        unjudged = [] if flags.json else client.rows_if_kept("unjudged", **filters)
        late = None if flags.json else freshness.lateness(client, datetime.now(UTC))
        rows = client.rows("findings", from_ts=start, to_ts=end, open=only_open, **filters)
        span = {"from_ts": start, "to_ts": end}
        waste = None if flags.json else client.rows_if_kept("waste", **span, **filters)
        silent = None if flags.json else freshness.silent_end(client, start, end)
        past = None if flags.json else freshness.unjudged_past(client, (start, end))
    if flags.json:
        print_json(rows, flags)
        return 0
    screen, now = console(), datetime.now(UTC)
    if late == freshness.NEVER and not rows:
        screen.print(
            past or "Nothing was judged yet: a service does that each minute, from its first measurement on."
        )
        return 0
    if late is not None:
        screen.print(f"{late}: what was open then may be over", style="yellow")
    of = words.in_range(flags.since, flags.until)
    groups = sorted(grouped(rows, _about), key=lambda group: -(_wasted_by(group) or 0.0))
    screen.print(_heading(len(groups), bool(only_open), of), style="bold" if rows else None)
    for line in filter(None, (silent, past)):
        screen.print(line, style="yellow")
    if waste and (waste[0]["wasted_gpu_hours"] or waste[0]["low_saturation_gpu_hours"]):
        screen.print(_wasted(waste[0], bool(only_open), of))
    for group in groups:
        screen.print(_draw(group, now))
    shown = [part[0] for group in groups for part in _parts(group)]
    general = [row for row in shown if _own_remedy(row) is None]
    now_open = {str(row["kind"]) for row in general if row["closed_at"] is None}
    for line in what_to_do({str(row["kind"]) for row in general}, now_open):
        screen.print(line, style="bright_black")
    screen.print(not_judged(unjudged), style="bright_black")
    return 0


def _window(flags: argparse.Namespace) -> tuple[datetime, datetime]:
    """The range asked for, and all of the minute in which it ends: what was found at that moment is in it."""
    now = datetime.now(UTC)
    start, end = window(flags.since, flags.until, now + timedelta(minutes=1))
    typed = parse_point(flags.until, now) if flags.until else end
    return start, end if typed <= end else end + timedelta(minutes=1)


def what_to_do(kinds: set[str], now_open: set[str]) -> list[str]:
    """A line for each of these kinds, in the order of their list: what it means and what to do about it.

    What is over, as all of a job's kind that is not ``now_open``, leaves something to do in a next run alone.
    """
    over = {kind for kind, about in KINDS.items() if about.is_waste and kind not in now_open}
    return [
        f"{kind}: {about.says}. {wording.when_to_do(is_over=kind in over)}: {about.remedy}"
        for kind, about in KINDS.items()
        if kind in kinds
    ]


def not_judged(rows: "list[UnjudgedRow] | None") -> str:
    """How many GPUs were not, or not wholly, judged and why, in a line; ``None``: the store is older."""
    if rows is None:
        return "not judged: an older Fallow wrote this store, which says nothing of it"
    if not rows:
        return "not judged: nothing"
    gpus: dict[str, set[str]] = {}
    for row in rows:
        gpus.setdefault("starting up" if row["verdict"] == "starting" else str(row["reason"]), set()).add(
            row["uuid"]
        )
    most = sorted(gpus.items(), key=lambda each: (-len(each[1]), each[0]))
    reasons = "; ".join(f"{reason}: {len(uuids)}" for reason, uuids in most[:MOST_REASONS])
    more = f"; {len(most) - MOST_REASONS} reasons more" if len(most) > MOST_REASONS else ""
    count = len(set().union(*gpus.values()))
    return f"not judged: {count} GPU{'' if count == 1 else 's'} ({reasons}{more}); see --unknown"


def _who(row: "UnjudgedRow") -> str:
    """Whose the verdict is: one holder's, else of whoever holds the GPU."""
    holder = row.get("held_by")  # an older service does not tell
    return row["user_name"] or (f"held by {holder}" if holder else "any holder")


def _list_unjudged(rows: "list[UnjudgedRow]", flags: argparse.Namespace) -> int:
    if flags.json:
        print_json(rows, flags)
        return 0
    screen = console()
    screen.print(not_judged(rows).removesuffix("; see --unknown"), style="bold")
    for row in rows:
        kinds = set((row["kinds"] or "").split(", ")) - {""}
        about = f" · for {'every kind' if kinds >= set(KINDS) else row['kinds']}" if kinds else ""
        head = Text.assemble((row["verdict"], "bold"), f"  {place(row)} · {_who(row)}")
        screen.print(Group(head, Padding(Text(f"{row['reason']}{about}"), (0, 0, 0, 2), expand=False)))
    return 0


def _list_patterns(rows: "list[PatternsRow]", flags: argparse.Namespace) -> int:
    if flags.json:
        print_json(rows, flags)
    else:
        console().print(draw(rows))
    return 0


def _list_intruders(rows: "list[IntrusionsRow]", flags: argparse.Namespace) -> int:
    if flags.json:
        print_json(rows, flags)
        return 0
    screen = console()
    if not rows:
        screen.print("No process is seen on a GPU that somebody else was given.")
    now = datetime.now(UTC)
    for row in rows:
        over = "" if row["to_ts"] is None else f" · until {words.clock_time(row['to_ts'])}"
        head = Text.assemble(
            (f"{row['user_name'] or 'somebody'}'s {row['process_name'] or 'process'}", "bold red"),
            f" (pid {row['pid']}) on {place(row)}, given to {row['given_to'] or 'others'}",
            (f" · since {text.length(words.since(row['from_ts'], now))}{over}", "bright_black"),
            "" if row["memory_used_bytes"] is None else f" · {text.memory(row['memory_used_bytes'], None)}",
            "" if row["sm_ratio"] is None else f" · {text.percent(row['sm_ratio'])} of its time",
        )
        screen.print(Group(head, Padding(Text(row["command"] or ""), (0, 0, 0, 2), expand=False)))
    return 0


def _about(row: "FindingsRow") -> About:
    return row["kind"], row["job"], row["closed_at"] is None


def _wasted_by(group: "list[FindingsRow]") -> float | None:
    return once_a_job((each["kind"], each["uuid"], each["wasted_gpu_hours"]) for each in group)


def _heading(count: int, only_open: bool, of: str) -> str:
    """How many are below: what a job's GPUs have in common is one."""
    if not count:
        return "No open findings." if only_open else f"{of}: no findings."
    return text.many(count, "open finding" if only_open else "finding")


def _wasted(waste: "WasteRow", only_open: bool, of: str) -> str:
    """What was wasted in the range, the ledger's sum, and how much of it is about what was found."""
    named = waste["open_gpu_hours" if only_open else "found_gpu_hours"]
    priced = words.priced(waste["wasted_cost"], waste["currency"])
    drawn = energy.wasted([waste]) if "wasted_energy_kwh" in waste else None
    metered = f", {energy.written(drawn)}" if drawn is not None and drawn.kwh else ""
    about = "about something open" if only_open else "about these"
    wasted, low = text.hours(waste["wasted_gpu_hours"]), text.hours(waste["low_saturation_gpu_hours"])
    return (
        f"{of}: {wasted} GPU-hours wasted{priced}{metered}, {text.hours(named)} of them {about}; "
        f"{wording.at_least(waste.get('bound_used_gpu_hours'))}{low} GPU-hours at low saturation beside it"
    )


def _draw(group: "list[FindingsRow]", now: datetime) -> RenderableType:
    """One message a job: for each kind the first GPU's sentence, and on which others it is the same."""
    row = group[0]
    parts = _parts(group)
    more = len({each["uuid"] for each in group}) - 1
    lasted = text.length(words.since(min(each["opened_at"] for each in group), now))
    ends = [each["closed_at"] for each in group if each["closed_at"] is not None]
    over = f" · over since {words.clock_time(max(ends))}" if ends else ""
    wasted = _wasted_by(group)
    kinds = [
        Text(each, style=FINDING_STYLES.get(each, PLAIN)) for each in (part[0]["kind"] for part in parts)
    ]
    head = Text.assemble(
        Text(", ").join(kinds),
        f"  {place(row)}{f' and {more} more' if more else ''}",
        f" · {ABOUT.get(row['kind'], '')}{words.owner(row)}",
        f" · {row['project']}" if row["project"] else "",
        (f" · found {lasted} ago{over}", "bright_black"),
        (f" · {text.hours(wasted)} GPU-hours wasted", "red") if wasted else "",
    )
    lines = [Padding(Text(_sentence(part)), (0, 0, 0, 2), expand=False) for part in parts]
    return Group(head, *lines)


def _parts(group: "list[FindingsRow]") -> "list[list[FindingsRow]]":
    return by_kind(group, lambda each: str(each["kind"]), is_open=group[0]["closed_at"] is None)


def _sentence(part: "list[FindingsRow]") -> str:
    row, *more = part
    same = others([place(each) for each in more if each["uuid"] != row["uuid"]])
    same = " ".join(filter(None, (same, words.found_again(part))))
    remedy = _own_remedy(row)
    when = wording.when_to_do(is_over=row["closed_at"] is not None)  # no fault of a machine has its own
    to_do = "" if remedy is None else f" {when}: {words.localized(remedy)}."
    return f"{words.localized(row['sentence'])}{f' {same}' if same else ''}{to_do}"


def _own_remedy(row: "FindingsRow") -> str | None:
    """What to do where it is another thing than about its kind in general: a GPU of the job was lost, say."""
    about = words_of_kind(row["kind"])
    if about is None:
        return None
    told = about.remedy_for if row["closed_at"] is None else about.next_time
    remedy = told(None, row.get("evidence"))
    return None if remedy == about.remedy_for(None) else remedy
