"""``fallow config``: the configuration in force, and where each value came from; or every key there is."""

import argparse
from collections.abc import Mapping

from rich.text import Text

from service.cli.screen import Column, console, print_json, table
from service.config.flags import settle
from service.config.model import Setting
from service.config.reference import page
from service.sources.specs import parse_specs


def run_config(flags: argparse.Namespace) -> int:
    """Print it."""
    if flags.reference:
        print(page(), end="")
        return 0
    settings = settle(flags)
    parse_specs(settings.effective.config.collect.sources)  # what the service refuses is not in force
    if flags.json:
        print_json([_row(each) for each in settings.effective.settings], flags)
        return 0
    screen = console()
    screen.print(
        f"DATA is {settings.data}; a file {settings.data / 'fallow.toml'} may set these:", style="bold"
    )
    columns = [Column(title="key"), Column(title="value", least=10), Column(title="from", least=10)]
    lines: list[list[str | Text]] = [
        [
            each.key,
            str(_plain(each.value)),
            Text(each.origin, style="bright_black" * (each.origin == "default")),
        ]
        for each in settings.effective.settings
    ]
    screen.print(table(columns, lines))
    for remark in settings.effective.remarks:
        screen.print(remark, style="yellow", markup=False, highlight=False)
    return 0


def _row(setting: Setting) -> dict[str, object]:
    return {"key": setting.key, "value": _plain(setting.value), "origin": setting.origin}


def _plain(value: object) -> object:
    match value:
        case tuple():
            return list(value)
        case Mapping():
            return dict(value)
        case _:
            return value
