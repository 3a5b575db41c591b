"""The distribution as a user gets it: a wheel made from the source one, in an empty environment, and used."""

import os
import re
import signal
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import duckdb
import pytest

from tests.conftest import program
from tests.service.conftest import SMALL, until

pytestmark = [pytest.mark.process, pytest.mark.long]

pytest.importorskip("setuptools", minversion="77", reason="setuptools>=77 is not installed")

ROOT = Path(__file__).parents[2]
COMMIT = "0123456789ab"
DEADLINE_S = 280
BARE = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FALLOW"))}
SDIST = "from setuptools import build_meta; print(build_meta.build_sdist('../dist'))"


def ran(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        words, cwd=folder, env=BARE, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def fallow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment that has the wheel; what it depends on is lent from ours.

    Of our environment's folder only the packages that lie in it are seen: the checkout, which is installed
    there by a link, is not.
    """
    folder = tmp_path_factory.mktemp("dist")
    tree = folder / "tree"
    tree.mkdir()
    git = program("git", "git")
    files = ran([git, "-C", str(ROOT), "ls-files", "-z", "--cached"], folder)
    for name in filter(None, files.split("\0")):
        if name.partition("/")[0] not in ("tests", "bench", "docs", "examples"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes()) if (ROOT / name).is_file() else None
    (tree / "service" / "commit.txt").write_text(COMMIT)
    (folder / "dist").mkdir()
    ran([sys.executable, "-c", SDIST], tree)
    (source,) = (folder / "dist").glob("fallow_gpu-*.tar.gz")
    with tarfile.open(source) as packed:
        packed.extractall(folder / "source", filter="data")
    (unpacked,) = (folder / "source").iterdir()
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    ran([sys.executable, *build, "--wheel-dir", str(folder / "dist"), str(unpacked)], folder)

    venv.create(folder / "env", with_pip=False)
    interpreter = folder / "env" / "bin" / "python"
    site = next((folder / "env" / "lib").glob("python*/site-packages"))
    (site / "lent.pth").write_text(f"{Path(duckdb.__file__).parents[1]}\n")
    (wheel,) = (folder / "dist").glob("fallow_gpu-*.whl")
    install = ["-m", "pip", "--python", str(interpreter), "install", "--quiet", "--no-deps", "--no-index"]
    ran([sys.executable, *install, "--force-reinstall", str(wheel)], folder)
    return folder / "env" / "bin" / "fallow"


@contextmanager
def up(fallow: Path, data: Path) -> Iterator[str]:
    """The address that ``fallow up`` prints."""
    data.mkdir(mode=0o700)
    (data / "fallow.toml").write_text(SMALL)
    command = [str(fallow), "up", "--simulated", "--data", str(data)]
    log = data.with_name("up.log")
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=data, env=BARE, stdout=out, stderr=out, start_new_session=True
        )
    try:
        until("it is up", lambda: process.poll() is not None or "Fallow is up" in log.read_text(), 120)
        found = re.search(r"Fallow is up at (\S+)", log.read_text())
        assert found is not None, log.read_text()
        yield found[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


def test_it_says_its_version_and_commit_and_is_not_the_checkout(fallow: Path, tmp_path: Path) -> None:
    assert re.fullmatch(
        rf"fallow \d+\.\d+\.\d+ \(commit {COMMIT}\)\n", ran([str(fallow), "--version"], tmp_path)
    )
    where = "import service, app; print(service.__file__); print(app.__file__)"
    for line in ran([str(fallow.with_name("python")), "-P", "-c", where], tmp_path).splitlines():
        assert Path(line).is_relative_to(fallow.parents[1])


def test_up_serves_a_dashboard_whose_first_page_opens_in_its_own_colours(
    fallow: Path, tmp_path: Path
) -> None:
    browser = program("chromium", "chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with up(fallow, tmp_path / "data") as url, playwright.sync_playwright() as driver:
        with urlopen(url, timeout=30) as page:
            assert page.status == 200
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        try:
            tab = opened.new_page(color_scheme="light")
            tab.goto(url)
            tab.get_by_text(re.compile("GPUs, .* handed out")).first.wait_for(timeout=120_000)
            colour = tab.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
            assert colour == "rgb(251, 250, 247)", "the look of .streamlit/config.toml is installed as well"
        finally:
            opened.close()
