"""The Debian package in a Debian of its own: installed, used, upgraded, removed, installed again, purged."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.service.conftest import until

pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
FIRST, SECOND = "0.1.0+git1", "0.1.0+git2"
SETTING = '\n[collect]\nsources = ["simulated"]\ntick_s = 1.0\n\n[simulated]\nnodes = 1\nbackfill_days = 1\n'
CONFIG = "etc/fallow/fallow.toml"
BARE = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FALLOW"))}
BARE |= {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}


def ran(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, env=BARE, cwd="/", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two packages of this tree, the second of a later version."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed: this is no Debian")
    folder = tmp_path_factory.mktemp("deb")
    tree = folder / "tree"
    ran("git", "clone", "--quiet", str(ROOT), str(tree))
    ran(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(tree))
    found = spec_from_file_location("build_deb", ROOT / "packaging/debian/build.py")
    assert found is not None and found.loader is not None
    build = module_from_spec(found)
    found.loader.exec_module(build)
    (wheel,) = folder.glob("*.whl")
    made: list[Path] = build.packages(wheel, folder, [FIRST, SECOND])
    return made


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root of a small Debian of this release, with Python and nothing else."""
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        pytest.skip("needs root and mmdebstrap; on Debian: apt-get install mmdebstrap")
    root = tmp_path_factory.mktemp("debian") / "root"
    release = ran("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME").strip()
    made = subprocess.run(
        ["mmdebstrap", "--variant=minbase", "--include=python3", "--quiet", release, str(root)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"no Debian can be made here: {made.stderr.strip()[-200:]}")
    ran("mount", "-t", "proc", "proc", str(root / "proc"))
    try:
        yield root
    finally:
        ran("umount", "--lazy", str(root / "proc"))


def inside(debian: Path, *words: str) -> str:
    return ran("chroot", str(debian), *words)


@contextmanager
def served(debian: Path) -> Iterator[None]:
    """The unit's own command as the account fallow, without systemd."""
    unit = (debian / "lib/systemd/system/fallow.service").read_text()
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    words = command.removeprefix("ExecStart=").replace("%S", "/var/lib").split()
    state = debian / "var/lib/fallow"
    if not state.exists():  # what StateDirectory does
        state.mkdir(mode=0o750)
        inside(debian, "chown", "fallow:fallow", "/var/lib/fallow")
    account = ("setpriv", "--reuid=fallow", "--regid=fallow", "--init-groups", "--bounding-set=-all")
    process = subprocess.Popen(["chroot", str(debian), *account, *words], env=BARE, text=True)
    try:
        until("a tick is stored", lambda: process.poll() is not None or newest(debian) > 0, 240)
        assert process.poll() is None
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert process.returncode == 0


def newest(debian: Path) -> int:
    """When the running service stored its newest tick, UTC ms; 0: none, or nobody answers."""
    place = debian / "var/lib/fallow/service.json"
    try:
        with urlopen(f"{json.loads(place.read_text())['url']}/healthz", timeout=10) as answer:
            return int(json.load(answer)["last_tick_ms"] or 0)
    except (OSError, ValueError):
        return 0


def test_it_is_installed_used_upgraded_removed_and_keeps_what_was_measured(
    debian: Path, built: list[Path]
) -> None:
    for package in built:
        shutil.copy(package, debian / "tmp")
    first, second = (f"/tmp/{package.name}" for package in built)

    inside(debian, "dpkg", "--install", first)
    assert "fallow:x:" in (debian / "etc/passwd").read_text()
    assert inside(debian, "fallow", "--version").startswith("fallow 0.1.0")
    enabled = debian / "etc/systemd/system/multi-user.target.wants"
    assert {each.name for each in enabled.glob("fallow*")} == {
        "fallow.service",
        "fallow-probe.service",
        "fallow-hand.service",
    }
    with (debian / CONFIG).open("a") as file:
        file.write(SETTING)
    with served(debian):
        measured = inside(debian, "fallow", "status")
    assert "SIMULATED" in measured

    inside(debian, "dpkg", "--install", second)
    assert (debian / CONFIG).read_text().endswith(SETTING), "an edited configuration stays"
    assert inside(debian, "dpkg-query", "-W", "-f", "${Version}", "fallow") == SECOND
    before = (debian / "var/lib/fallow/fallow.duckdb").stat()
    with served(debian):
        pass

    inside(debian, "dpkg", "--remove", "fallow")
    left = debian / "opt/fallow"
    assert not left.exists(), sorted(left.rglob("*"))[:5]
    assert not (debian / "usr/bin/fallow").is_symlink()
    assert (debian / "var/lib/fallow/fallow.duckdb").stat().st_ino == before.st_ino
    assert (debian / CONFIG).exists()

    inside(debian, "dpkg", "--install", second)
    with served(debian):
        assert "SIMULATED" in inside(debian, "fallow", "status")
    said = inside(debian, "dpkg", "--purge", "fallow")
    assert "stays in /var/lib/fallow" in said and (debian / "var/lib/fallow/fallow.duckdb").exists()
    assert not (debian / CONFIG).exists()
