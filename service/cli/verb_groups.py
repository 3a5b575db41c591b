"""The verbs in groups, as ``fallow --help`` and the documentation list them. Pure."""

import textwrap
from collections.abc import Mapping

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Look": (
        "waste",
        "status",
        "findings",
        "ledger",
        "job",
        "tell",
        "report",
        "alerts",
        "doctor",
        "config",
        "collect",
        "mcp",
    ),
    "Start and keep it running": (
        "init",
        "up",
        "serve",
        "node",
        "service",
        "import",
        "export",
        "token",
        "store",
        "completion",
    ),
    "Decide": ("advise", "explain", "plan", "whatif", "simulate", "burst"),
    "Run jobs": (
        *("run", "jobs", "queue", "logs", "pause", "resume", "resize", "cancel", "keep", "consent"),
    ),
    "Act": ("apply", "reject", "actions", "undo", "stop-acting", "start-acting"),
}
"""Those first that answer who wastes what. A verb stands in one group (tests/service/test_cli_summary.py)."""

WIDTH = 79
"""Of the narrowest terminal that people have, less one: some wrap a line that fills it."""
NAME_WIDTH = 15
"""The longest verb, and room."""


def help_text(description: str, about: Mapping[str, str]) -> str:
    """What ``fallow --help`` prints; ``about`` has a line for each verb."""
    lines = [description, "", "usage: fallow             how things stand, the worst, and what to type next"]
    lines += ["       fallow VERB ...   see `fallow VERB --help`", "       fallow --version"]
    lines += ["       with each: --data DIR (the store), --config FILE (the configuration)"]
    for title, names in GROUPS.items():
        lines += ["", f"{title}:"]
        for name in names:
            lines += textwrap.wrap(
                about[name],
                WIDTH,
                initial_indent=f"    {name:{NAME_WIDTH}}",
                subsequent_indent=" " * (4 + NAME_WIDTH),
            )
    return "\n".join(lines) + "\n"
