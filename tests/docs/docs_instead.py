"""What is checked of a command that cannot be run as it stands, and why it cannot: a short table.

Every other command of the documentation is run. A row's pattern must fit a whole command.
"""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass

from service.cli.parser import parse
from service.units import SERVICE as UNIT
from tests.docs.docs_reading import ROOT
from tests.docs.docs_stage import Site

Check = Callable[[Site, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instead:
    """Commands that fit ``pattern`` are not run, because of ``why``; ``check`` is done instead."""

    pattern: str
    why: str
    check: Check


def parsed(_: Site, text: str) -> None:
    """The program's own parser takes it."""
    parse(fallow_words(text))


def read_once(site: Site, text: str) -> None:
    """It is taken, and each source that it names is read once."""
    flags = parse(fallow_words(text)).flags
    for source in flags.source or ():
        named = [word for word in shlex.split(text) if re.match(r"[A-Z_]+=", word)]
        site.variables.update(dict(word.split("=", 1) for word in named))
        assert site.rows("collect", "--once", "--source", source), f"nothing was read from {source}"


def dry_made(site: Site, text: str) -> None:
    """make knows the target, and what it would do."""
    done = site.shell(f"{text} --dry-run")
    assert done.status == 0 and done.text.strip(), done.text


def unit_shown(site: Site, text: str) -> None:
    """It is taken, and the unit that it would write can be shown."""
    parse(fallow_words(text))
    done = site.verb("service", "install", "--dry-run")
    assert done.status == 0 and "ExecStart=" in done.text, done.text


def served(site: Site, text: str) -> None:
    """The site's own service is stopped and started, by the signal that systemd sends."""
    order, unit = text.split()[-2:]
    assert f"{unit}.service" == UNIT
    if order in ("stop", "restart"):
        site.stop()
    if order in ("start", "restart"):
        site.start()


def installed(site: Site, text: str) -> None:
    """It asks for a unit that would be installed."""
    assert f"/{text.rsplit(maxsplit=1)[-1]}\n" in site.verb("service", "install", "--dry-run").text


def logged(_: Site, text: str) -> None:
    """It asks for the unit that is installed."""
    assert f"--unit {UNIT.removesuffix('.service')}" in text


def as_root(site: Site, text: str) -> None:
    """It is run without sudo: the folders are the tests' own."""
    done = site.shell(site.real(text.removeprefix("sudo ")))
    assert done.status == 0, done.text


def as_account(site: Site, text: str) -> None:
    """It is run as who runs the tests: the folder is theirs."""
    done = site.shell(site.real(text.removeprefix("sudo -u fallow ")))
    assert done.status == 0, done.text


def trained(site: Site, text: str) -> None:
    """It is started in the background, takes steps, and prints its socket."""
    site.train(text)


def helped(site: Site, text: str) -> None:
    """The program's own help knows every option that it is given."""
    module = re.search(r"-m ((?:fallow|tests)(?:\.\w+)+)", text)
    assert module is not None
    done = site.shell(f"python -m {module[1]} --help")
    own = text.split(" -- ", maxsplit=1)[0]
    unknown = [flag for flag in re.findall(r"(--[a-z-]+)", own) if flag not in done.text]
    assert done.status == 0 and not unknown, f"{module[1]} has no {unknown}"


def written(site: Site, text: str) -> None:
    """The script is there and reads every option that it is given."""
    script = next(word for word in text.split() if word.endswith(".py"))
    source = (ROOT / script).read_text()
    options = re.findall(r"(--[a-z-]+)", text.split(script, 1)[1])
    assert all(f'"{option}"' in source for option in options), f"{script} does not read all of {options}"


def kept_here(_: Site, text: str) -> None:
    """What it names of this checkout is there; NAME stands for something that is to be written."""
    named = [word for word in text.split() if re.match(r"(tests|bench)/", word)]
    assert named and all((ROOT / word).exists() for word in named), text


def packaged(_: Site, text: str) -> None:
    """What it would install is there, and has the extra that it names."""
    found = re.search(r" '?\.(?:/([\w/]+))?(?:\[(\w+)\])?'?$", text)
    assert found is not None, text
    project = (ROOT / (found[1] or "") / "pyproject.toml").read_text()
    assert found[2] is None or re.search(rf"^{found[2]} = \[", project, flags=re.MULTILINE), found[2]


SMALL_MODEL = """
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 4, 8, stride=8), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(3136, 10))
"""


def profiled(site: Site, text: str) -> None:
    """It is run, on a small model of another file."""
    (site.work / "small.py").write_text(SMALL_MODEL)
    done = site.shell(text.replace("train:model", "small:model"))
    assert done.status == 0, done.text


def nothing(_: Site, __: str) -> None:
    """Nothing: it needs what no test has."""


INSTEAD = (
    Instead(
        pattern=r"make (up|demo|dist|install|hooks|lint|types|check|test(-slow|-all|-upgrade FROM=\w+)?)",
        why="installs, stays, or takes minutes; every change is checked by make itself",
        check=dry_made,
    ),
    Instead(
        pattern=r"(FALLOW_PEER_TOKEN_FILE=\S+ )?fallow (up|serve)( .*)?",
        why="stays until Ctrl-C; tests/service/test_cli_up.py starts and stops both",
        check=read_once,
    ),
    Instead(
        pattern=r"fallow burst profile train:model .*",
        why="that name stands for the reader's own training",
        check=profiled,
    ),
    Instead(pattern=r"fallow status --watch", why="stays until Ctrl-C", check=parsed),
    Instead(
        pattern=r"fallow import jobs .*",
        why="needs a Slurm with a past; tests/service/test_import_jobs_real.py has a real one",
        check=parsed,
    ),
    Instead(pattern=r"SLURM_TIME_FORMAT=%s sacct .*", why="the same: no Slurm", check=nothing),
    Instead(
        pattern=r"fallow init( .*)?",
        why="it writes the configuration that the site's service runs with; tests/service/test_cli_init.py",
        check=parsed,
    ),
    Instead(
        pattern=r"fallow import prometheus .*",
        why="needs a Prometheus with history; tests/service/test_cli_import.py has a real one",
        check=parsed,
    ),
    Instead(
        pattern=r"(sudo )?(\S+/)?fallow service (install|uninstall|status)( --(user|node|yes|dry-run))*",
        why="needs a systemd to serve; tests/service/test_service_systemd_real.py boots one of its own",
        check=unit_shown,
    ),
    Instead(pattern=r"sudo systemctl (start|stop|restart) fallow", why="the same: no systemd", check=served),
    Instead(pattern=r"systemctl status fallow-node", why="the same: no systemd", check=nothing),
    Instead(pattern=r"journalctl .*", why="the same: no journal", check=logged),
    Instead(pattern=r"kubectl .*", why="needs a cluster; no real one was seen", check=nothing),
    Instead(pattern=r"systemd-analyze security \S+", why="the same: no systemd", check=installed),
    Instead(pattern=r"sudo (tar|cp|mv|sh -c 'umask) .*", why="tests are not root everywhere", check=as_root),
    Instead(pattern=r"sudo -u fallow fallow .*", why="no machine has that account", check=as_account),
    Instead(pattern=r"git (pull|worktree .*)", why="needs the place that it was cloned from", check=nothing),
    Instead(
        pattern=r"python -m fallow\.controller --min 1 --max 4 -- examples/text\.py",
        why="trains until it is stopped",
        check=trained,
    ),
    Instead(
        pattern=r"(FALLOW_TOKEN=\S+ )?python -m fallow\.(controller|agent) .*(--min|--max|--slots|-- ).*",
        why="trains for minutes; tests/fallow/test_driving.py drives such trainings",
        check=helped,
    ),
    Instead(
        pattern=r"(python3 -m venv \.venv|(\.venv/bin/)?pip install .*)",
        why="makes an environment of gigabytes; `make .venv/.tested` makes the one that this runs in",
        check=nothing,
    ),
    Instead(
        pattern=r"(\.venv/bin/)?python -m tests\.collector\.metric_files",
        why="writes files of this checkout; tests/collector/test_metric_added.py does so in a copy",
        check=nothing,
    ),
    Instead(
        pattern=r"(\.venv/bin/)?python -m tests\.gpu\.(run|written) .*",
        why="needs a GPU, or writes a page of this checkout; tests/gpu/test_dry.py plays both",
        check=helped,
    ),
    Instead(
        pattern=r"sbatch examples/slurm-elastic\.sh .*|scontrol release \d+",
        why="needs a Slurm; tests/fallow/test_slurm_elastic.py has a real one",
        check=nothing,
    ),
    Instead(
        pattern=r"python -m fallow\.controller --socket elastic-812\.socket .*",
        why="the same: asks the training in that job",
        check=helped,
    ),
    Instead(
        pattern=r"python -m fallow\.controller --socket \w+ devices .*",
        why="needs a training that was started with devices; tests/fallow/test_devices.py has such",
        check=helped,
    ),
    Instead(
        pattern=r"(python|torchrun .*) examples/\w+\.py.*",
        why="trains for minutes; tests/fallow/test_examples.py runs each, alone and under torchrun",
        check=written,
    ),
    Instead(pattern=r"cmp alone/model.pt .*", why="compares what those two made", check=nothing),
    Instead(
        pattern=r"job=\$\(sbatch .*|squeue --jobs=.*",
        why="needs a Slurm; tests/service/control/test_slurm_acting.py has a real one",
        check=nothing,
    ),
    Instead(
        pattern=r"fallow (job|pause|resume) (slurm:)?\$job",
        why="is about that job",
        check=parsed,
    ),
    Instead(
        pattern=r"fallow run --background .*",
        why="waits for a job that announces idle gaps, and none does there",
        check=parsed,
    ),
    Instead(
        pattern=r"fallow run .*--elastic -- .*",
        why="trains; tests/end_to_end/test_toys_elastic.py has it submitted",
        check=parsed,
    ),
    Instead(
        pattern=r"fallow simulate --trace .*",
        why="takes minutes; tests/service/test_cli_simulate.py runs shorter parts of the same traces",
        check=parsed,
    ),
    Instead(
        pattern=r"pytest -q .*|python bench/habits\.py .*",
        why="runs tests, or takes minutes: for who has changed something",
        check=kept_here,
    ),
    Instead(pattern=r"pip (install|wheel) .*", why="changes the environment, or builds", check=packaged),
)


def fallow_words(text: str) -> list[str]:
    """The words after the program's name."""
    words = shlex.split(text.removeprefix("sudo "))
    while re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    assert words[0].rpartition("/")[2] == "fallow", text
    return words[1:]


def instead_of(text: str) -> Instead | None:
    """The row for a command, ``None`` when it is to be run."""
    return next((row for row in INSTEAD if re.fullmatch(row.pattern, text)), None)
