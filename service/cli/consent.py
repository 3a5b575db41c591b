"""``fallow consent``: what may be done with one's own jobs, by whose word; and the owner's own word on it."""

import argparse
from collections.abc import Sequence

from analytics import text
from service.cli import words
from service.cli.asking import asked_to_act
from service.cli.job_words import job_id
from service.cli.plan_lines import at
from service.cli.screen import Column, console, print_json, table
from service.client.jobs import ActingClient
from service.durations import parse_span
from service.errors import FallowError
from service.schemas.control import Consent

KINDS = ("pause", "restart", "resize", "release", "share")
COLUMNS = (
    Column(title="job"),
    Column(title="name", least=8),
    Column(title="user"),
    *(Column(title=kind) for kind in KINDS),
    Column(title="by whose word", below=True),
)
"""What may be done, a column each; ``advisor.planner.consent`` says what each means."""


class BadConsent(FallowError):
    """What was typed says nothing that can be kept."""


def run_consent(flags: argparse.Namespace) -> int:
    """Show what holds; with --allow, --withdraw or --forget say it first."""
    client = asked_to_act(flags)
    job = None if flags.job is None else job_id(flags.job)
    classes = {name: named(getattr(flags, name)) for name in ("allow", "withdraw", "forget")}
    if any(classes.values()):
        return _say(client, job, classes, flags)
    if flags.all or flags.span:
        raise BadConsent("--all and --for go with --allow, --withdraw or --forget")
    rows = client.consents(job)
    if flags.json:
        print_json([row.sent for row in rows], flags)
        return 0
    screen = console()
    if not rows:
        screen.print(
            "No job of yours runs or waits; `fallow consent --allow pause --all` speaks for later ones."
        )
        return 0
    screen.print(table(COLUMNS, [_line(part) for part in _by_job(rows)]))
    return 0


def named(text: str | None) -> list[str]:
    """The kinds in ``pause,restart``; all of them for an empty word. Raises ``BadConsent``."""
    if text is None:
        return []
    kinds = [each.strip().lower() for each in text.split(",") if each.strip()]
    unknown = next((each for each in kinds if each not in KINDS), None)
    if unknown is not None:
        raise BadConsent(f"{unknown!r} is nothing that can be allowed; name {', '.join(KINDS)}")
    return list(dict.fromkeys(kinds)) or list(KINDS)


def _say(
    client: ActingClient, job: str | None, classes: dict[str, list[str]], flags: argparse.Namespace
) -> int:
    if (job is None) is not flags.all:
        raise BadConsent("say of which jobs: --job JOB, or --all of your own, later ones too")
    hold_s = None if flags.span is None else parse_span(flags.span).total_seconds()
    answer = client.consent({"job": job, **classes, "hold_s": hold_s})
    if flags.json:
        print_json([answer.sent], flags)
        return 0
    message = words.localized(answer.message)
    print(f"{message[:1].upper()}{message[1:]}.")
    return 0


def _by_job(rows: Sequence[Consent]) -> list[list[Consent]]:
    jobs: dict[str, list[Consent]] = {}
    for row in rows:
        jobs.setdefault(row.job, []).append(row)
    return list(jobs.values())


def _line(rows: list[Consent]) -> tuple[str, ...]:
    """One job: yes or no a kind, and whose word that is, the owner's own first."""
    first, kinds = rows[0], {row.kind: row.allowed for row in rows}
    owners_rows = [_consent_line(row) for row in rows if row.origin == "owner"]
    other = next((row.origin for row in rows if row.origin not in ("owner", "nobody")), None)
    rest = {"submission": "else as submitted", "site": "else as the site's [consent] says"}
    tail = [rest[other]] if other else ["else nobody's: no"] if len(owners_rows) < len(rows) else []
    return (
        first.job,
        first.name or text.NOTHING,
        first.user or text.NOTHING,
        *("yes" if kinds.get(kind) else "no" for kind in KINDS),
        "; ".join([*owners_rows, *tail]).removeprefix("else "),
    )


def _consent_line(row: Consent) -> str:
    until = f" until {at(row.until_ms)}" if row.until_ms is not None else ""
    scope = "all own jobs, " if row.for_all else ""
    return f"{row.kind} by its owner ({scope}{at(row.said_ms)}{until})"
