"""The controller's command line: start a training and drive it, or say something to one that runs.

    python -m fallow.controller --min 1 --max 4 --workers 2 --spare 1 -- train.py --epochs 3
    python -m fallow.controller --socket PATH resize 3

Exit codes: 0 the training came to its end, 1 it failed, 2 wrong usage, 75 it was stopped on request (and
saved, where it has a path), 130 Ctrl-C, 143 SIGTERM or a hang-up; the last two after a clean stop as well.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from fallow.control_server import ControlSocket, ask
from fallow.controller import membership
from fallow.controller.controller import Controller
from fallow.controller.growth import Growth
from fallow.controller.membership import Limits
from fallow.controller.requests import SLOW, Steering
from fallow.protocol import ENV_TOKEN
from fallow.top_ups.slurm import Slurm, TopUpJob
from fallow.top_ups.top_ups import TopUps
from fallow.workers.hosts import Hosts, devices_here, offer_here
from fallow.workers.interfaces import only_here, route_address
from fallow.workers.pool import WorkerPool, threads
from fallow.workers.relay import RelayServer, address
from fallow.workers.token import TokenMissing, make_token, token_of

STOPPED = 75
"""EX_TEMPFAIL: not finished, to be resumed."""
# argparse's own code; the others as a shell reports SIGINT and SIGTERM.
WRONG_USAGE, INTERRUPTED, TERMINATED = 2, 130, 143
ENV_SLURM_JOB = "SLURM_JOB_ID"
"""The job around us, which Slurm says to every process of it."""
# Over 30 years: what is longer is a typing error, and overflows a C time.
LONGEST_S = 1e9


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    own, training = _split(words)
    parser = _parser()
    options = parser.parse_args(own)
    if training:
        _check(parser, options, training)
        return _drive(options, training)
    if options.socket is None or not options.ask:
        parser.error("give a training after --, or --socket PATH and what to ask")
    return _ask(options.socket, options.ask)


def _drive(options: argparse.Namespace, training: list[str]) -> int:
    _leave_on_signals()
    with ExitStack() as at_the_end:
        try:
            control = ControlSocket(options.socket or _own_folder(at_the_end) / "control")
        except OSError as error:
            _tell(f"cannot listen: {error}")
            return WRONG_USAGE
        at_the_end.callback(control.close)
        return _drive_from(options, training, control, at_the_end)


def _own_folder(at_the_end: ExitStack) -> Path:
    """A folder that nobody else can look into, and that goes with us."""
    folder = Path(tempfile.mkdtemp(prefix="fallow-"))
    at_the_end.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _drive_from(
    options: argparse.Namespace, training: list[str], control: ControlSocket, at_the_end: ExitStack
) -> int:
    driven: list[Controller] = []

    def wake() -> None:
        for controller in driven:
            controller.wake()

    # Where top-ups may come, on other nodes, the folder of the training is one that they see as well.
    folder = Path.cwd() if options.top_up else control.path.parent
    token = _token(options, folder, at_the_end) if options.listen is not None else None
    nursery = WorkerPool(
        training,
        threads(os.environ, options.maximum),
        warm=not options.cold,
        preload=options.preload,
        on_news=wake,
    )
    listens = options.listen
    devices = options.devices or devices_here()
    here = offer_here(_slots(options), listens[0] if listens else "", devices)
    hosts = Hosts(here, nursery.spawn, training, _tell)
    controller = Controller(
        hosts.spawn,
        workers=options.workers or max(options.minimum, len(options.devices or ())),
        minimum=options.minimum,
        maximum=options.maximum,
        spare=options.spare,
        limits=_limits(options),
        room=hosts.room,
        tell=_tell,
    )
    driven.append(controller)
    steering = Steering(controller, hosts, options.minimum, options.maximum)
    control.answers = steering.answer
    signals = _stop_on_signals(controller)
    _tell(f"resize with: python -m fallow.controller --socket {control.path} resize N")
    gate = None
    try:
        gate = _open_gate(listens, controller, token) if token is not None else None
        if options.top_up and gate is not None and token is not None:
            job = _top_up_job(options, f"{listens[0]}:{gate.port}", token)
            top_ups = TopUps(Slurm(job), options.top_up, tell=_tell, wake=wake)
            steering.growth = Growth(controller, hosts, top_ups)
        code = controller.run(poll=_looking(hosts, steering), listeners=(control,))
    finally:
        hosts.dismiss()
        nursery.close()
        if steering.growth is not None:
            steering.growth.close()
        if gate is not None:
            gate.close()
    return _sum_up(controller, code, signals, steering.suspended)


def _looking(hosts: Hosts, steering: Steering) -> Callable[[Controller], None]:
    """What is looked at once a round: machines that come and go, and what was asked for."""

    def look(controller: Controller) -> None:
        broken = membership.is_broken(controller.view)
        going = hosts.look(controller.box, broken=broken) - controller.view.unwanted
        if going:
            controller.let_go(going)
        steering.look()

    return look


@dataclass(frozen=True, slots=True)
class _Token:
    """What machines must know to join, and how a person is told where to find it."""

    value: str = field(repr=False)
    known: str
    path: Path | None


def _token(options: argparse.Namespace, folder: Path, at_the_end: ExitStack) -> _Token:
    """The token that was given, or a new one left in a file of ours; workers don't inherit it."""
    try:
        if options.token_file or os.environ.get(ENV_TOKEN):
            source = f"the token in {options.token_file}" if options.token_file else f"${ENV_TOKEN}"
            path = None if options.token_file in (None, "-") else Path(options.token_file).resolve()
            return _Token(token_of(options.token_file, os.environ), source, path)
        path = folder / f"fallow-token-{os.getpid()}"
        new_token = _Token(make_token(path), f"the token in {path}", path)
    except (TokenMissing, OSError) as error:
        _tell(str(error))
        sys.exit(WRONG_USAGE)
    at_the_end.callback(path.unlink, missing_ok=True)
    return new_token


def _open_gate(listens: tuple[str, int], controller: Controller, token: _Token) -> RelayServer:
    """Let other machines in that know the token."""
    host, port = controller.address.rsplit(":", 1)
    try:
        gate = RelayServer(listens, (host, int(port)), token.value, controller.secret)
    except OSError as error:
        _tell(f"cannot listen at {listens[0]}:{listens[1]}: {error}")
        sys.exit(WRONG_USAGE)
    where = f"{listens[0]}:{gate.port}"
    _tell(f"machines join with {token.known}: python -m fallow.agent {where} --token-file FILE --slots N")
    return gate


def _top_up_job(options: argparse.Namespace, gate: str, token: _Token) -> TopUpJob:
    if token.path is None:
        _tell(
            "--top-up needs a token that its jobs can read: give --token-file FILE, in a folder of all nodes"
        )
        sys.exit(WRONG_USAGE)
    return TopUpJob(
        of=os.environ[ENV_SLURM_JOB],
        gate=gate,
        token_file=token.path,
        python=sys.executable,
        options=options.top_up_sbatch,
    )


def _slots(options: argparse.Namespace) -> int | None:
    """Slots of this machine: as asked for, else a GPU each, else as many as the training may have."""
    if options.slots is None and not (options.devices or devices_here()):
        return int(options.maximum)
    return None if options.slots is None else int(options.slots)


def _sum_up(controller: Controller, code: int, signals: list[int], saved_before: bool) -> int:
    if controller.view.finished and code == 0:
        return 0
    why = controller.view.unsaved
    if why is None and controller.stopped and controller.view.members:
        why = "its workers were ended before they had left"
    unsaved = "" if why is None else f"; it could not be saved then: {why}"
    if signals:
        _tell(f"stopped by {signal.Signals(signals[0]).name}{unsaved}")
        return INTERRUPTED if signals[0] == signal.SIGINT else TERMINATED
    _tell(f"the training stopped: {controller.exit_reason}{unsaved}")
    return STOPPED if controller.stopped and (not unsaved or saved_before) else code


def _leave_on_signals() -> None:
    """Until there is a training to stop, whoever asks us to end is heard at once; we tidy up first."""

    def leave(number: int, frame: object) -> None:
        sys.exit(INTERRUPTED if number == signal.SIGINT else TERMINATED)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def _stop_on_signals(controller: Controller) -> list[int]:
    """Stop cleanly when asked to; asked a second time, at once. Returns the signals that will have come."""
    came: list[int] = []

    def stop(number: int, frame: object) -> None:
        came.append(number)
        controller.ask_to_stop(signal.Signals(number).name)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    return came


def _ask(path: Path, words: Sequence[str]) -> int:
    try:
        answer = ask(path, words, timeout_s=None if words[0] in SLOW else 5)
    except OSError as error:
        print(f"fallow: no controller answers at {path}: {error}", file=sys.stderr)
        return 1
    print(answer or '{"error": "the controller ended before it answered"}')
    return 1 if not answer or '"error"' in answer else 0


def _address(text: str) -> tuple[str, int]:
    try:
        host, port = address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if host in ("0.0.0.0", "*"):
        raise argparse.ArgumentTypeError(f"{text!r} is not ADDR:PORT with an address of this machine")
    if (loopback := only_here(host)) is not None:
        raise argparse.ArgumentTypeError(
            f"{host} is {loopback} here, where no other machine can join: give an address of this machine, "
            f"for example {route_address() or 'the one that they know it by'}:{port}"
        )
    return host, port


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def _devices(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of devices, each once, with commas between")
    return names


def _limits(options: argparse.Namespace) -> Limits:
    return replace(Limits(), start_ms=int(options.start_timeout * 1000), failures=options.failures)


def _tell(line: str) -> None:
    print(f"fallow: {line}", file=sys.stderr, flush=True)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace, training: list[str]) -> None:
    if options.ask:
        parser.error(f"either a training or a request, not both: {' '.join(options.ask)}")
    if not 1 <= options.minimum <= options.maximum:
        parser.error(f"--min {options.minimum} --max {options.maximum}: they must be 1 <= min <= max")
    if options.workers is not None and not options.minimum <= options.workers <= options.maximum:
        parser.error(
            f"--workers {options.workers} lies outside --min {options.minimum} --max {options.maximum}"
        )
    if options.devices and options.slots is not None:
        parser.error("--devices says how many slots there are: leave --slots out")
    if options.devices and not options.minimum <= len(options.devices) <= options.maximum:
        named = len(options.devices)
        parser.error(f"{named} --devices lie outside --min {options.minimum} --max {options.maximum}")
    if options.top_up and options.listen is None:
        parser.error("--top-up brings other machines: say with --listen ADDR:PORT where they join")
    if options.top_up and ENV_SLURM_JOB not in os.environ:
        parser.error(f"--top-up adds jobs to one of Slurm's, and this is none ({ENV_SLURM_JOB} is not set)")
    if options.top_up < 0:
        parser.error("--top-up must be 0 or more")
    if options.spare < 0:
        parser.error("--spare must be 0 or more")
    if training[0] != "-m" and not Path(training[0]).is_file():
        parser.error(f"no such script: {training[0]}")
    if training == ["-m"]:
        parser.error("-m needs a module")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fallow.controller",
        description="Drive an elastic training, or ask one that runs.",
        usage="%(prog)s [options] -- SCRIPT|-m MODULE [ARGUMENT ...]\n"
        "       %(prog)s --socket PATH resize N [without MACHINE[,MACHINE...]] | top-up N |\n"
        "           devices NAME[,NAME...] | status | release WORKER | release-caches | suspend | stop",
    )
    parser.add_argument("--min", dest="minimum", type=int, default=1, help="fewest workers (1)")
    parser.add_argument("--max", dest="maximum", type=int, default=64, help="most workers (64)")
    parser.add_argument("--workers", type=int, help="workers at the start (--min)")
    parser.add_argument("--spare", type=int, default=0, help="warm workers kept waiting to join (0)")
    parser.add_argument("--cold", action="store_true", help="start each worker as a fresh interpreter")
    parser.add_argument(
        "--preload", action="append", default=[], metavar="MODULE", help="import this once for all workers"
    )
    parser.add_argument(
        "--start-timeout",
        type=_seconds,
        default=600.0,
        metavar="S",
        help="longest silent start of a joiner (600)",
    )
    parser.add_argument(
        "--failures",
        type=int,
        default=5,
        metavar="N",
        help="failures in a row before it is tried no more (5)",
    )
    parser.add_argument("--slots", type=int, help="workers that fit on this machine (a GPU each, else --max)")
    parser.add_argument(
        "--devices", type=_devices, metavar="NAME[,NAME...]", help="a worker each, which sees no other device"
    )
    parser.add_argument(
        "--listen", type=_address, metavar="ADDR:PORT", help="let other machines join, through this interface"
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="what machines must know to join (mode 0600); - for stdin"
    )
    parser.add_argument(
        "--top-up",
        type=int,
        default=0,
        metavar="N",
        help="most further jobs to ask Slurm for, on request (0)",
    )
    parser.add_argument(
        "--top-up-sbatch",
        default="",
        metavar="OPTIONS",
        help="what sbatch is told of each: its GPUs, a partition or QOS whose jobs Slurm takes back",
    )
    parser.add_argument("--socket", type=Path, help="where to listen, or whom to ask")
    parser.add_argument("ask", nargs="*", help=argparse.SUPPRESS)
    return parser
