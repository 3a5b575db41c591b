"""Build the Debian package: Fallow in /opt/fallow, its units, its account, its configuration.

    python packaging/debian/build.py WHEEL OUT

The wheel and what it depends on, at the versions of constraints.txt, go into a virtual environment of the
machine's own Python, so the package is for this release of Debian and this architecture. Units, configuration
and completion are written by the program that is packed. Needs dpkg-deb; prints the path of the package.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = "/usr/bin/python3"
"""Debian's: another one isn't there on the machine that the package is installed on."""
PREFIX = "opt/fallow"
PROGRAMS = ("fallow", "fallow-probe", "fallow-hand")
"""All that stays of the environment's commands; those of its libraries are nobody's."""
CONFIG = """\
# The service's settings; `fallow config` says what is in force. The page docs/configuration.md has all keys.
# After a change: systemctl restart fallow

[system]
account = "fallow"         # whose service everybody's commands on this machine believe
data = "/var/lib/fallow"
"""
UNITS = """\
import sys
from pathlib import Path
from service.units import Deployment, units
bin = "/opt/fallow/bin/"
wanted = Deployment(
    program=(bin + "fallow",), probe=(bin + "fallow-probe",), hand=(bin + "fallow-hand",),
    data=None, config=Path("/etc/fallow/fallow.toml"), for_user=False,
)
for name, text in units(wanted).items():
    Path(sys.argv[1], name).write_text(text)
"""


def main() -> int:
    """Build, print where the package is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("out", type=Path, help="the folder for the package")
    parser.add_argument("--version", action="append", help="of the package; else of the wheel and the commit")
    flags = parser.parse_args()
    wheel, out = flags.wheel.resolve(), flags.out.resolve()
    for package in packages(wheel, out, flags.version or [version_of(wheel)]):
        print(package)
    return 0


def packages(wheel: Path, out: Path, versions: Sequence[str]) -> list[Path]:
    """A package for each version, all with the same wheel."""
    result = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        install(wheel, tree)
        add_files(tree)
        for version in versions:
            add_control(tree, version)
            result.append(packed(tree, version, out))
    return result


def install(wheel: Path, tree: Path) -> None:
    """The environment with the wheel, compiled, as if it lay in ``/opt/fallow``."""
    place = tree / PREFIX
    run(PYTHON, "-m", "venv", "--without-pip", str(place))
    pip = (sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "--quiet")
    run(*pip, "--no-compile", "--constraint", str(ROOT / "constraints.txt"), str(wheel))
    for each in (place / "bin").iterdir():
        if each.name in PROGRAMS:
            each.write_text(each.read_text().replace(str(tree), "", 1))
        elif not each.name.startswith("python"):
            each.unlink()
    for folder in ("etc", "include", "share"):  # what libraries bring for notebooks and compilers
        shutil.rmtree(place / folder, ignore_errors=True)
    config = place / "pyvenv.cfg"
    config.write_text(config.read_text().replace(str(tree), ""))
    # Never looked at again: root's Python would else write anew what a wrong clock seems to have changed.
    compiled = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
    run(PYTHON, *compiled, "-s", str(tree), "-p", "/", str(place / "lib"))


def add_files(tree: Path) -> None:
    """What lies outside of ``/opt/fallow``."""
    python = str(tree / PREFIX / "bin" / "python")
    units = made(tree / "lib/systemd/system")
    run(python, "-P", "-c", UNITS, str(units))
    (made(tree / "etc/fallow") / "fallow.toml").write_text(CONFIG)
    (made(tree / "usr/bin") / "fallow").symlink_to(f"/{PREFIX}/bin/fallow")
    completion = run(python, "-P", "-m", "service.cli", "completion", "bash")
    (made(tree / "usr/share/bash-completion/completions") / "fallow").write_text(completion)
    shutil.copy(ROOT / "LICENSE", made(tree / "usr/share/doc/fallow") / "copyright")
    shutil.copy(ROOT / "NOTICE", tree / "usr/share/doc/fallow") if (ROOT / "NOTICE").exists() else None


def add_control(tree: Path, version: str) -> None:
    """The package's own files. Everything is root's, and nobody else's to write."""
    control = made(tree / "DEBIAN")
    minor = run(PYTHON, "-c", "import sys; print(sys.version_info[1])").strip()
    size_kib = sum(each.lstat().st_size for each in tree.rglob("*") if each.is_file()) // 1024
    text = (
        (HERE / "control")
        .read_text()
        .format(
            version=version,
            architecture=run("dpkg", "--print-architecture").strip(),
            size_kib=size_kib,
            minor=minor,
            next_minor=int(minor) + 1,
        )
    )
    (control / "control").write_text(text)
    (control / "conffiles").write_text("/etc/fallow/fallow.toml\n")
    for name in ("postinst", "prerm", "postrm"):
        shutil.copy(HERE / name, control)
        (control / name).chmod(0o755)
    run("chmod", "-R", "u+rwX,go+rX,go-w", str(tree))


def version_of(wheel: Path) -> str:
    """The wheel's version and how many commits there are, so that a later commit is a later package."""
    version = wheel.name.split("-")[1]
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False
    )
    return f"{version}+git{commit.stdout.strip()}" if commit.returncode == 0 else version


def packed(tree: Path, version: str, out: Path) -> Path:
    """The package of a tree."""
    made(out)
    architecture = run("dpkg", "--print-architecture").strip()
    package = out / f"fallow_{version}_{architecture}.deb"
    run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z6", "--build", str(tree), str(package))
    return package


def made(folder: Path) -> Path:
    """The folder, which is there from now on."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run(*words: str, bare: Sequence[str] = ("PYTHON", "FALLOW")) -> str:
    """What a command prints. Ends the program with the command's own words where it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(tuple(bare))}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd="/", check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words[:6])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
