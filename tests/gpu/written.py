"""Makes docs/hardware.md: ``python -m tests.gpu.written DIR/*.json > docs/hardware.md``.

One table a section, a column a machine; whatever was not tried stands at the end with the command that will
show it. Pure but for reading the files.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.gpu.answers import shown
from tests.gpu.table import BUDGET_S, STEPS, Step
from tests.gpu.unseen import NO_STEP, WRITTEN, open_points

Document = Mapping[str, Any]
HEAD = Path(__file__).with_name("hardware_head.txt")
RUN = "python -m tests.gpu.run --out hardware --only {name}"


def page(documents: Sequence[Document]) -> str:
    """The whole page, with a column for each document."""
    parts = [HEAD.read_text().replace("MINUTES", str(BUDGET_S // 60))]
    if documents:
        parts += [_machines(documents), _not_met(documents)]
    sections = dict.fromkeys(step.section for step in STEPS)
    for section in sections:
        table = _section(section, [step for step in STEPS if step.section == section], documents)
        if table:
            parts.append(table)
    parts.append(_unseen(documents))
    return "\n".join(parts)


def main(argv: Sequence[str]) -> int:
    """Print the page of these files; of none it is a list of what is unseen. A dry run has no page."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.written", description=main.__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="a gpu.json that tests.gpu.run wrote")
    documents = {}
    for path in parser.parse_args(argv).files:
        try:
            documents[path] = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            parser.error(f"{path} is no file that tests.gpu.run wrote: {error}")
    dry = [path for path, document in documents.items() if document["machine"].get("dry")]
    if dry:
        sys.stderr.write(f"{', '.join(dry)}: of a dry run, which says nothing of hardware\n")
        return 2
    sys.stdout.write(page(list(documents.values())))
    return 0


def _machines(documents: Sequence[Document]) -> str:
    lines = ["## Machines\n", "| | " + " | ".join(_title(each) for each in documents) + " |"]
    lines.append("|---|" + "---|" * len(documents))
    names = dict.fromkeys(name for each in documents for name in each["machine"])
    for name in names:
        cells = (_cell(shown(each["machine"].get(name))) for each in documents)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _not_met(documents: Sequence[Document]) -> str:
    """Every bar that was not met, and every step that did not come to its end, in one list."""
    lines = []
    for document in documents:
        for step in document["steps"]:
            title = f"- {_title(document)}, `{step['name']}`"
            lines += [
                f"{title}: {_cell(each['name'])}: {_cell(shown(each['value']))} (bar: {_cell(each['bar'])})"
                for each in step.get("figures", ())
                if each["held"] is False
            ]
            if step.get("error"):
                lines.append(f"{title}: {_cell(step['error'])}")
    return "\n".join(["## What was not met\n", *(lines or ["Nothing."]), ""])


def _section(section: str, steps: Sequence[Step], documents: Sequence[Document]) -> str:
    rows = []
    for step in steps:
        found = [_step_of(each, step.name) for each in documents]
        figures = [{f["name"]: f for f in one.get("figures", ())} for one in found]
        for name in dict.fromkeys(name for each in figures for name in each):
            one = next(each[name] for each in figures if name in each)
            cells = " | ".join(_figure_cell(each.get(name)) for each in figures)
            rows.append(f"| {step.name}: {_cell(name)} | {_cell(one['bar'])} | {cells} |")
        errors = [each.get("error") for each in found]
        if any(errors):
            cells = " | ".join(_cell(f"**No**: {error}") if error else "-" for error in errors)
            rows.append(f"| {step.name} | | {cells} |")
    if not rows:
        return ""
    head = " | ".join(_title(each) for each in documents)
    return "\n".join(
        [f"## {section}\n", f"| figure | bar | {head} |", "|---|---|" + "---|" * len(documents), *rows, ""]
    )


def _unseen(documents: Sequence[Document]) -> str:
    lines = ["## Unseen\n", "| what it would settle | why it was not seen | command |", "|---|---|---|"]
    played = []
    for step in STEPS:
        found = [_step_of(each, step.name) for each in documents]
        if any(one.get("verdict") in ("held", "broke") for one in found):
            played.append(step.name)
            continue
        why = next((one["why"] for one in found if one.get("why")), _not_played(step, documents))
        command = RUN.format(name=step.name)
        lines.append(f"| {_cell(step.settles)} | {_cell(why)} | `{command}` |")
    for point in open_points(documents, played):
        command = RUN.format(name=point.step)
        lines.append(f"| {_cell(point.settles)} | {_cell(point.why)} | `{command}` |")
    lines += [f"| {_cell(settles)} | {_cell(why)} | `{command}` |" for settles, why, command in NO_STEP]
    return "\n".join(lines) + "\n"


def _not_played(step: Step, documents: Sequence[Document]) -> str:
    if not documents:
        return "no GPU was at hand"
    if "two GPUs" in step.needs:
        return "no machine with two GPUs was at hand"
    if all(each["at"] < WRITTEN.get(step.name, "") for each in documents):
        return "the step was written after the run"
    return "not played: the time on the GPU was over before"


def _step_of(document: Document, name: str) -> Mapping[str, Any]:
    return next((each for each in document["steps"] if each["name"] == name), {})


def _title(document: Document) -> str:
    machine = document["machine"]
    return f"{machine.get('GPU') or 'unknown GPU'}, {document['at'][:10]}"


def _figure_cell(figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return "-"
    value = _cell(f"{shown(figure['value'])} {figure['unit']}".strip())
    return f"**No**: {value}" if figure["held"] is False else value


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
