"""``fallow doctor``: what this machine can measure, what it can't, why, and what to do."""

import argparse

from rich.padding import Padding
from rich.text import Text

from service.cli.screen import console, print_json
from service.config.flags import settle
from service.doctor_checks.checks import examine
from service.doctor_checks.results import Finding, Verdict

MARKS = {
    Verdict.GOOD: ("✓", "green"),
    Verdict.LIMITED: ("~", "yellow"),
    Verdict.ABSENT: ("-", "bright_black"),
    Verdict.TROUBLE: ("✗", "bold red"),
}
IN_TROUBLE = 1


def run_doctor(flags: argparse.Namespace) -> int:
    """Print each finding as it is made; status 1 when something is in trouble."""
    settings = settle(flags)
    screen = console()
    checks = []
    for each in examine(settings.effective.config, settings.data):
        checks.append(each)
        if not flags.json:
            for line in draw(each):
                screen.print(line)
    if flags.json:
        print_json([_row(each) for each in checks], flags)
    return IN_TROUBLE if any(each.verdict is Verdict.TROUBLE for each in checks) else 0


def _row(finding: Finding) -> dict[str, object]:
    return {
        "subject": finding.subject,
        "verdict": finding.verdict.value,
        "found": finding.found,
        "advice": finding.advice or None,
    }


def draw(finding: Finding) -> list[Padding | Text]:
    """A finding as lines: its mark, subject and verdict; what was found; what to do."""
    mark, style = MARKS[finding.verdict]
    lines: list[Padding | Text] = [
        Text.assemble((f"{mark} ", style), (f"{finding.subject:14}", "bold"), f" {finding.verdict.value}"),
        Padding(Text(finding.found), (0, 0, 0, 4), expand=False),
    ]
    if finding.advice:
        lines.append(Padding(Text(f"→ {finding.advice}", style="cyan"), (0, 0, 0, 4), expand=False))
    return lines
