"""What can be typed: every verb with its flags, and nothing of what they do."""

import argparse
import difflib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeAlias

from analytics.vocabulary.actions import ADVISED
from service.cli import (
    alert_flags,
    burst_flags,
    import_flags,
    init_flags,
    job_flags,
    look_flags,
    plan_flags,
    report_flags,
    service_flags,
    simulate_flags,
    verb_groups,
)
from service.cli.look_flags import add_filters, add_json, add_window
from service.errors import FallowError

ADVICE_CLASSES = tuple(action.value for action in ADVISED)

NOUNS = {
    "advise": "advice",
    **dict.fromkeys(("apply", "reject", "undo", "stop_acting", "start_acting"), "actions"),
    **dict.fromkeys(("pause", "resume", "resize", "cancel", "keep"), "jobs"),
    **dict.fromkeys(("import", "export"), "data"),
}
"""The file of a verb, where it isn't called as the verb is."""


class BadUsage(FallowError):
    """What was typed is not a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A verb and its flags, ready to run."""

    verb: str
    flags: argparse.Namespace

    def run(self) -> int:
        """Load the verb's file and call its ``run_VERB``; returns the exit status."""
        verb = self.verb.replace("-", "_")
        module = importlib.import_module(f"service.cli.{NOUNS.get(verb, verb)}")
        status: int = getattr(module, f"run_{verb}")(self.flags)
        return status


def parse(argv: Sequence[str] | None) -> Command:
    """What was typed as a command. Raises ``BadUsage``; exits by itself for --help and --version.

    No verb asks for the state, the worst, and what to type next. ``--data`` and ``--config`` may stand before
    the verb or behind it; where both are said, the one behind counts, as the later of two does elsewhere.
    """
    flags = make_parser().parse_args(argv)
    for name in ("data", "config"):
        before = getattr(flags, f"{name}_before_verb")
        delattr(flags, f"{name}_before_verb")
        if getattr(flags, name, None) is None:
            setattr(flags, name, before)
    return Command(verb=flags.verb or "summary", flags=flags)


class _Parser(argparse.ArgumentParser):
    """argparse with one plain sentence for an error, and the nearest word for a misspelt one."""

    def error(self, message: str) -> NoReturn:
        raise BadUsage(f"{message} (see `{self.prog} --help`)")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        choices = [str(each) for each in action.choices or ()]
        if action.choices is not None and value not in action.choices:
            near = difflib.get_close_matches(str(value), choices, n=1)
            meant = f"; did you mean {near[0]}?" if near else f"; one of: {', '.join(choices)}"
            raise BadUsage(f"{value!r} is not a {action.metavar or action.dest}{meant}")


class _Grammar(_Parser):
    """The program's own help: its verbs in groups, those first that say who wastes what."""

    def format_help(self) -> str:
        about = {
            name: text
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for name, text in ((each.dest, each.help or "") for each in action._get_subactions())
        }
        return verb_groups.help_text(str(self.description), about)


def make_parser() -> argparse.ArgumentParser:
    """The whole grammar."""
    parser = _Grammar(
        prog="fallow", description="Finds the GPU hours that lie fallow: handed out, never used."
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="print the version and its commit, and exit"
    )
    _where(parser, "_before_verb")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    for add in (
        _init,
        _up,
        _serve,
        _status,
        _collect,
        _waste,
        _ledger,
        _job,
        _findings,
        _tell,
        _alerts,
        _advise,
        _plan,
        _explain,
        _whatif,
        _simulate,
        _report,
        _import,
        _export,
        _doctor,
        _config,
        _mcp,
    ):
        add(verbs)
    service_flags.add_verbs(lambda name, about: _verb(verbs, name, about))
    burst_flags.add_verbs(lambda name, about: _verb(verbs, name, about))
    job_flags.add_verbs(lambda name, about: _verb(verbs, name, about))
    plan_flags.add_verbs(lambda name, about: _verb(verbs, name, about))
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from service.version import own_commit, own_version

        commit = own_commit()
        print(f"fallow {own_version()}{f' (commit {commit})' if commit else ''}")
        parser.exit()


Verbs: TypeAlias = "argparse._SubParsersAction[_Parser]"
"""argparse has no public name for it."""


def _verb(verbs: Verbs, name: str, about: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=about)
    _where(verb)
    return verb


def _where(parser: argparse.ArgumentParser, suffix: str = "") -> None:
    """``suffix`` keeps what stands before the verb apart: a verb's own flags would overwrite it."""
    parser.add_argument(
        "--data",
        dest=f"data{suffix}",
        type=Path,
        metavar="DIR",
        help="the store's folder (else $FALLOW_DATA, else your own, ~/.local/state/fallow)",
    )
    parser.add_argument(
        "--config",
        dest=f"config{suffix}",
        type=Path,
        metavar="FILE",
        help="the configuration (else DIR/fallow.toml)",
    )


def _sources(verb: argparse.ArgumentParser) -> "argparse._MutuallyExclusiveGroup":
    which = verb.add_mutually_exclusive_group()
    which.add_argument(
        "--source",
        action="append",
        metavar="SOURCE",
        help="nvml | nodes | dcgm=URL[,URL] | fallow=URL[,URL] | replay=FILE | simulated; may be repeated "
        "(default: nvml, this machine's own GPUs)",
    )
    which.add_argument(
        "--simulated",
        action="store_const",
        const=["simulated"],
        dest="source",
        help="a simulated cluster instead: its GPUs, people and jobs are invented",
    )
    return which


def _serving(verb: argparse.ArgumentParser) -> "argparse._MutuallyExclusiveGroup":
    which = _sources(verb)
    verb.add_argument("--tick", type=float, metavar="SECONDS", help="how often to measure")
    verb.add_argument("--host", help="the address to answer at (default loopback)")
    verb.add_argument("--port", type=int, help="the port to answer at")
    return which


def _init(verbs: Verbs) -> None:
    verb = _verb(verbs, "init", "look around, write the configuration, import the past, show the waste")
    init_flags.add(verb)


def _up(verbs: Verbs) -> None:
    verb = _verb(verbs, "up", "start the service and the dashboard, and print the URL")
    _serving(verb).add_argument(
        "--or-simulated",
        action="store_true",
        help="where nothing is chosen and this machine has no NVIDIA GPU: the simulated cluster, in a folder "
        "of its own (DIR-simulated)",
    )
    verb.add_argument("--dashboard-port", type=int, metavar="PORT", help="the dashboard's port")
    verb.add_argument(
        "--allow-acting",
        action="store_true",
        default=None,
        help="let who signs in to the dashboard act from it; prints the link that signs you in",
    )


def _serve(verbs: Verbs) -> None:
    verb = _verb(verbs, "serve", "measure, keep, and answer over HTTP, until stopped")
    _serving(verb)
    verb.add_argument(
        "--log-to-file",
        action="store_true",
        help="write the log to DATA/service.log, and only warnings to standard error",
    )


def _status(verbs: Verbs) -> None:
    look_flags.add_status(_verb(verbs, "status", "what every GPU does now, and for whom"))


def _collect(verbs: Verbs) -> None:
    verb = _verb(verbs, "collect", "read the sources once and print what they say; nothing is kept")
    verb.add_argument(
        "--once", action="store_true", required=True, help="read once (to go on, use `fallow serve`)"
    )
    _sources(verb)
    add_json(verb)


def _waste(verbs: Verbs) -> None:
    about = "who wasted how many GPU-hours, why, and what to do about it"
    look_flags.add_waste(_verb(verbs, "waste", about))


def _ledger(verbs: Verbs) -> None:
    about = "GPU-hours: given out, used, wasted; they add up to the hardware"
    look_flags.add_ledger(_verb(verbs, "ledger", about))


def _job(verbs: Verbs) -> None:
    verb = _verb(verbs, "job", "one job, running or ended: given, used, wasted, its verdict and each GPU")
    verb.add_argument("job", metavar="JOB", help="a job's id, or its name where only one has it")
    add_window(verb, "30d")
    add_json(verb)


def _findings(verbs: Verbs) -> None:
    verb = _verb(verbs, "findings", "what is wasted or broken, with the evidence")
    verb.add_argument("--all", action="store_true", help="closed ones too (default: those that are open)")
    instead = verb.add_mutually_exclusive_group()
    instead.add_argument("--unknown", action="store_true", help="what was not judged instead, and why")
    instead.add_argument(
        "--intruders", action="store_true", help="processes on GPUs that others were given instead"
    )
    instead.add_argument("--patterns", action="store_true", help="how each holder works instead")
    add_window(verb, "24h")
    add_filters(verb)
    add_json(verb)


def _tell(verbs: Verbs) -> None:
    verb = _verb(verbs, "tell", "what to write to a job's owner about what is found of it; nothing is sent")
    verb.add_argument("job", metavar="JOB", help="a job's id, or its name where only one has it")
    add_json(verb)


def _alerts(verbs: Verbs) -> None:
    alert_flags.add_flags(
        _verb(verbs, "alerts", "what people are told of: cases, whom a word reached, what next")
    )


def _advise(verbs: Verbs) -> None:
    verb = _verb(
        verbs, "advise", "what would give GPU-hours back, with evidence, gain and risk; nothing is done"
    )
    verb.add_argument(
        "--all", action="store_true", help="also every job that nothing is advised for, and why"
    )
    verb.add_argument("--only", choices=ADVICE_CLASSES, metavar="CLASS", help=", ".join(ADVICE_CLASSES))
    verb.add_argument(
        "--recurring", action="store_true", help="only what recurs in the range, whoever is idle now"
    )
    add_window(verb, "7d")
    add_json(verb)


def _plan(verbs: Verbs) -> None:
    verb = _verb(verbs, "plan", "what would be done now, in order, and what is refused; nothing is done")
    verb.add_argument(
        "--want",
        action="append",
        metavar="PROJECT:GPUS[:MODEL]",
        help="as if this job waited, for example vision:4; may be repeated",
    )
    only = verb.add_mutually_exclusive_group()
    only.add_argument("--waiting", action="store_true", help="only the plans that wait for a yes")
    only.add_argument(
        "--try",
        action="store_true",
        dest="tried",
        help="what each step would do: commands, signals, leases; nothing is done",
    )
    add_json(verb)


def _explain(verbs: Verbs) -> None:
    verb = _verb(verbs, "explain", "why something is advised, why nothing else, and what would change it")
    verb.add_argument(
        "name", metavar="JOB|GPU|ADVICE", help="a job's id, a GPU (node:index or UUID), an advice"
    )
    add_json(verb)


def _simulate(verbs: Verbs) -> None:
    verb = _verb(verbs, "simulate", "what policies would have made of a trace, or of what was recorded here")
    simulate_flags.add(verb)
    add_window(verb, "30d")
    verb.set_defaults(since=None)
    add_json(verb)


def _whatif(verbs: Verbs) -> None:
    verb = _verb(verbs, "whatif", "what each class of action would have given back over the recorded past")
    add_window(verb, "30d")
    verb.add_argument(
        "--consented", action="store_true", help="only jobs whose owners consented (default: as if all had)"
    )
    verb.add_argument(
        "--charging",
        action="store_true",
        help="whom it would move if held-idle hours were charged once more, and nothing else",
    )
    verb.add_argument(
        "--rules", action="store_true", help="whom each rule of [hooks] would have paused, and nothing else"
    )
    add_json(verb)


def _report(verbs: Verbs) -> None:
    report_flags.add_flags(_verb(verbs, "report", "a report for people: made now, shown, or listed"))


def _import(verbs: Verbs) -> None:
    verb = _verb(verbs, "import", "read history from elsewhere into the store; safe to repeat")
    import_flags.add(verb)


def _export(verbs: Verbs) -> None:
    verb = _verb(verbs, "export", "write the telemetry to open files")
    verb.add_argument("--format", choices=("parquet", "csv"), default="parquet", metavar="parquet|csv")
    verb.add_argument("--out", type=Path, required=True, metavar="DIR", help="a folder, made if need be")
    add_window(verb, "30d")


def _doctor(verbs: Verbs) -> None:
    verb = _verb(verbs, "doctor", "what this machine can measure, what it can't, why, and what to do")
    _sources(verb)
    add_json(verb)


def _config(verbs: Verbs) -> None:
    verb = _verb(verbs, "config", "the configuration in force, and where each value came from")
    _serving(verb)
    verb.add_argument(
        "--reference",
        action="store_true",
        help="every key there is instead, with its default, bounds and meaning, as Markdown",
    )
    add_json(verb)


def _mcp(verbs: Verbs) -> None:
    _verb(verbs, "mcp", "let your assistant ask: the reading verbs as tools (Model Context Protocol)")
