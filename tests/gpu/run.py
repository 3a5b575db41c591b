"""The first half hour on a GPU, in parts of at most nine minutes.

    python -m tests.gpu.run --part 1 --out DIR [--budget 540] [--only NAME]...
    python -m tests.gpu.run --dry --out DIR          every step, on a pretend device and a stand-in driver

Steps run in the order of ``table.STEPS``, each in a process group of its own. One over its limit is ended
by its pipe, then by SIGTERM, and by SIGKILL last, but never where CUDA restores processes. What a step leaves
on the GPU is said with its name. ``DIR/gpu.json`` is written anew after each step, so a run that is cut keeps
what it has. Nothing of the GPU's settings is changed. The exit status is 0 whenever the file is whole.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gpu import forks, place
from tests.gpu.answers import shown, verdict_of
from tests.gpu.table import BUDGET_S, DRY_BUDGET_S, DRY_LIMIT_S, PARTS, STEPS, Step, step_named

ROOT = Path(__file__).parents[2]
TAIL_LINES = 40
GRACE_S = 5.0
"""Between the pipe, SIGTERM and SIGKILL: a process with a context on a GPU takes a second or two to end."""
BACK_S = 10.0
SLACK_BYTES = 64 << 20
"""So much more than before a step may be in use after it: contexts of others come and go."""
MOST_ROWS = 60
USED_S = 60.0
"""A driver that was just asked for much answers late; one that hangs is not waited for."""
Process = Any
"""As ``subprocess.Popen`` makes them."""
Starter = Callable[..., Process]


@dataclass(frozen=True, slots=True)
class Ended:
    """A step's process: its output, and how it was ended (empty: by itself)."""

    out: str
    err: str
    code: int | None
    how: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run, write, print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.run", description=__doc__)
    parser.add_argument("--part", type=int, choices=PARTS, help="only the steps of this part")
    parser.add_argument("--out", type=Path, default=Path("hardware"), help="the folder of gpu.json")
    parser.add_argument("--budget", type=float, help="seconds for all steps")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this step; may be repeated")
    parser.add_argument("--dry", action="store_true", help="on a pretend device and a stand-in driver")
    parser.add_argument(
        "--try-driver",
        action="store_true",
        help="take processes of its own off and back under a driver that is not in foreign.drivers' default",
    )
    flags = parser.parse_args(argv)
    only = {step_named(name) for name in flags.only} if flags.only else set(STEPS)
    steps = [step for step in STEPS if step in only and flags.part in (None, step.part)]
    budget_s = flags.budget or (DRY_BUDGET_S if flags.dry else BUDGET_S * (1 if flags.part else len(PARTS)))
    flags.out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        if flags.try_driver:
            environment[place.TRY_DRIVER] = "1"
        if flags.dry:
            environment = stack.enter_context(_stood_in(environment))
        start = stack.enter_context(forks.template(environment)).popen if flags.dry else subprocess.Popen
        document = run(steps, flags.out / "gpu.json", environment, budget_s, dry=flags.dry, start=start)
    print("\n".join(table(document, steps)))
    return 0


def command(step: Step) -> Sequence[str]:
    """What plays a step."""
    return (sys.executable, "-m", "tests.gpu.one", step.name)


def run(
    steps: Sequence[Step],
    path: Path,
    environment: Mapping[str, str],
    budget_s: float,
    *,
    dry: bool,
    command_of: Callable[[Step], Sequence[str]] = command,
    start: Starter = subprocess.Popen,
) -> dict[str, Any]:
    """The steps one after the other; the document, as it stands in the file."""
    document = _before(path)
    document["at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    until_s, baseline = time.monotonic() + budget_s, _used(environment, start)
    going = True
    for step in steps:
        left_s = until_s - time.monotonic()
        # On a GPU a step that is cut has spent its time for nothing; dry, a second is what most steps need.
        limit_s = min(DRY_LIMIT_S, left_s) if dry else step.limit_s
        row: dict[str, Any] = {"name": step.name, "part": step.part}
        if not going or left_s <= 0 or limit_s > left_s:
            why = "the time that was left did not suffice" if going else "a step before it did not end"
            row |= {"verdict": "no time", "why": why}
        else:
            begun_s = time.monotonic()
            ended = _played(command_of(step), limit_s, environment, start, may_kill=not step.restores)
            row |= _judged(ended) | {"seconds": round(time.monotonic() - begun_s, 1)}
            going = ended.code is not None
            baseline, left = _left(environment, start, baseline)
            if left:
                row["left_bytes"] = left
        document["machine"] |= row.pop("facts", {})
        document["steps"] = [each for each in document["steps"] if each["name"] != step.name] + [row]
        _write(path, document)
        print(f"{step.name}: {row['verdict']}", file=sys.stderr, flush=True)
    return document


def table(document: Mapping[str, Any], steps: Sequence[Step]) -> list[str]:
    """At most 60 lines: each step's verdict, and its figures, those whose bars were not met first."""
    lines, names = [], {step.name for step in steps}
    for row in document["steps"]:
        if row["name"] not in names:
            continue
        lines.append(
            f"{row['name']:<10} {row['verdict']:<8} {row.get('error') or row.get('why') or ''}"[:160]
        )
        if "left_bytes" in row:
            lines.append(f"{'':<10} left {row['left_bytes'] >> 20} MiB on the GPU")
        for figure in sorted(row.get("figures", ()), key=lambda each: each["held"] is not False):
            mark = {True: "ok", False: "NO", None: ""}[figure["held"]]
            value = f"{shown(figure['value'])} {figure['unit']}"
            lines.append(f"{'':<10} {mark:<3} {figure['name']:<48} {value:<18} {figure['bar']}"[:160])
    if len(lines) <= MOST_ROWS:
        return lines
    heads = [line for line in lines if not line.startswith(" ") or " NO " in line][: MOST_ROWS - 1]
    return [*heads, f"({len(lines) - len(heads)} figures more stand in the file)"]


def _played(
    words: Sequence[str], limit_s: float, environment: Mapping[str, str], start: Starter, *, may_kill: bool
) -> Ended:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start(
            words,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            env=environment,
            cwd=ROOT,
            start_new_session=True,
        )
        how = _ended(process, limit_s, may_kill=may_kill)
        out.seek(0)
        err.seek(0)
        return Ended(out.read(), err.read(), process.returncode, how)


def _ended(process: Process, limit_s: float, *, may_kill: bool) -> str:
    """Wait for its end, and see to it when it is over its limit; how it was ended."""
    assert process.stdin is not None
    how = ""
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        how = f"over its limit of {limit_s:g} s: ended by its pipe"
        with contextlib.suppress(OSError):
            process.stdin.close()
        if not _waited(process):
            how = f"over its limit of {limit_s:g} s: ended by SIGTERM"
            _signal(process.pid, signal.SIGTERM)
        if not _waited(process):
            how = f"over its limit of {limit_s:g} s: it does not end, and is not killed where CUDA restores"
            if may_kill:
                how = f"over its limit of {limit_s:g} s: ended by SIGKILL"
                _signal(process.pid, signal.SIGKILL)
                _waited(process)
    with contextlib.suppress(OSError):
        process.stdin.close()
    if may_kill:
        _signal(process.pid, signal.SIGTERM)  # loads that outlived it; their group is named after it
    return how


def _waited(process: Process) -> bool:
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _judged(ended: Ended) -> dict[str, Any]:
    """What a step that was played came to."""
    line = next((each for each in reversed(ended.out.splitlines()) if each.startswith("{")), None)
    if ended.code == 0 and not ended.how and line is not None:
        answer = json.loads(line)
        if "missing" in answer:
            return {"verdict": "missing", "why": answer["missing"]}
        return {"verdict": verdict_of(answer.get("figures", ())), **answer}
    tail = [each for each in ended.out.splitlines() + ended.err.splitlines() if not each.startswith("{")]
    tail = tail[-TAIL_LINES:]
    last = next((each for each in reversed(tail) if each.strip()), "no word")
    kept = {} if line is None else {"figures": json.loads(line).get("figures", [])}
    return {"verdict": "broke", "error": ended.how or f"status {ended.code}: {last}", "tail": tail, **kept}


def _used(environment: Mapping[str, str], start: Starter) -> int | None:
    words = (sys.executable, "-m", "tests.gpu.used")
    with tempfile.TemporaryFile("w+") as out:
        process = start(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, env=environment, cwd=ROOT
        )
        try:
            process.wait(USED_S)
            out.seek(0)
            answer: int | None = json.loads(out.read())
        except (subprocess.TimeoutExpired, ValueError):
            process.terminate()
            return None
        return answer


def _left(environment: Mapping[str, str], start: Starter, baseline: int | None) -> tuple[int | None, int]:
    """What is in use from here on, and by how much a step left more than there was; it may take a moment."""
    until_s = time.monotonic() + BACK_S
    while (
        (now := _used(environment, start)) is not None
        and baseline is not None
        and now > baseline + SLACK_BYTES
    ):
        if time.monotonic() > until_s:
            return now, now - baseline
        time.sleep(0.5)
    return baseline, 0


def _before(path: Path) -> dict[str, Any]:
    """What an earlier part wrote there."""
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return {"machine": {}, "steps": []}


def _write(path: Path, document: Mapping[str, Any]) -> None:
    fresh = path.with_suffix(".new")
    with fresh.open("w") as file:
        json.dump(document, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


@contextlib.contextmanager
def _stood_in(environment: Mapping[str, str]) -> Any:
    """The environment of a machine that isn't there."""
    from tests.gpu.standing_in import machine

    with tempfile.TemporaryDirectory() as folder, machine(Path(folder), environment) as found:
        yield found


if __name__ == "__main__":
    sys.exit(main())
