"""Holds the house to its plan: who may import whom, who owns which dependency, and how big things get.

When a rule hurts, change the rule and ``docs/architecture.md`` together, and say why.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from collector.model import GpuSample, ProcessSample

ROOT = Path(__file__).parents[1]
OURS = ("collector", "analytics", "advisor", "service", "fallow", "app")
FUNCTION_LINES = 60
FILE_LINES = 400

PURE = (
    "collector/attribution.py",
    "collector/model.py",
    "collector/source.py",
    "analytics/findings",
    "analytics/model.py",
    "analytics/profiles.py",
    "advisor/advice.py",
    "advisor/arithmetic",
    "advisor/charging.py",
    "advisor/check.py",
    "advisor/consent.py",
    "advisor/decide.py",
    "advisor/explain.py",
    "advisor/guard.py",
    "advisor/journal/deeds.py",
    "advisor/journal/proposals.py",
    "advisor/limits.py",
    "advisor/live/observed.py",
    "advisor/live/protect.py",
    "advisor/live/spoken.py",
    "advisor/model.py",
    "advisor/plan.py",
    "advisor/policies",
    "advisor/protection.py",
    "advisor/register/life.py",
    "advisor/register/memory_watch.py",
    "advisor/register/model.py",
    "advisor/register/pair_watch.py",
    "advisor/register/shares.py",
    "advisor/register/state.py",
    "advisor/round.py",
    "advisor/rules.py",
    "advisor/sim/usage.py",
    "advisor/steps.py",
    "advisor/transition.py",
    "advisor/whatif",
    "advisor/written.py",
    "service/alerts/cases.py",
    "service/alerts/digest.py",
    "service/alerts/facts.py",
    "service/alerts/hours.py",
    "service/alerts/idle.py",
    "service/alerts/letters.py",
    "service/alerts/model.py",
    "service/alerts/rules.py",
    "service/alerts/sayings.py",
    "service/names.py",
)
IMPURE_MODULES = {"time", "random", "logging", "os", "socket", "subprocess", "pathlib", "datetime.now"}

MAY_IMPORT = {
    "fallow": ("fallow",),
    "collector": ("collector",),
    "analytics": (
        "analytics",
        "collector.model",
        "collector.clock",
        "collector.store",
    ),
    "advisor": (
        "advisor",
        "analytics",
        "collector.model",
        "collector.clock",
        "collector.inventory",
        "collector.procfs",
        "collector.snapshot",
        "collector.store",
        "fallow.protocol",
        "fallow.batches.batch",
        "fallow.controller.membership",
    ),
    "service": OURS[:-1],
    "service/pages": ("service.client", "service.pages"),
    "app": ("service.client", "service.pages"),
}

OWNERS = {
    "pynvml": ("collector/nvml",),
    "duckdb": ("collector/store",),
    "prometheus_client": ("collector/dcgm",),
    "httpx": ("collector/dcgm", "collector/backfill"),
    "apscheduler": ("service/daemon",),
    "apprise": ("service/delivery",),
    "jinja2": ("service/reports",),
    "torch": ("fallow",),
    "streamlit": ("app.py", "service/pages"),
    "altair": ("service/pages", "service/cli/chart_runs.py"),
    "vl_convert": ("service/reports",),
    "pandas": ("service/pages", "service/client"),
    "fastapi": ("service/api",),
    "uvicorn": ("service/daemon",),
    "rich": ("service/cli",),
    "rustworkx": ("advisor/policies/pairing",),
    "matplotlib": (),
    "highspy": (),
}


def sources() -> list[Path]:
    door = ROOT / "app.py"
    files = [path for name in OURS[:-1] for path in sorted((ROOT / name).rglob("*.py"))]
    return [*files, door] if door.is_file() else files


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, gone through once for all that is asked of it."""
    return tuple(ast.walk(parsed(path)))


def imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)}: import by full name, not relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(path: Path) -> str:
    name = relative(path)
    if name.startswith("service/pages/"):
        return "service/pages"
    return name.split("/")[0].removesuffix(".py")


def within(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


@pytest.mark.parametrize("path", sources(), ids=relative)
def test_imports_point_back_up_the_hall(path: Path) -> None:
    allowed = MAY_IMPORT[room(path)]
    foreign = [m for m in imports(path) if m.split(".")[0] in OURS and not within(m, allowed)]
    assert not foreign, f"{relative(path)} may import {allowed}, but imports {foreign}"


@pytest.mark.parametrize("path", sources(), ids=relative)
def test_heavy_dependencies_have_one_owner(path: Path) -> None:
    for module in imports(path):
        owners = OWNERS.get(module.split(".")[0])
        if owners is not None:
            assert relative(path).startswith(owners), f"{module} belongs to {owners}, not {relative(path)}"


@pytest.mark.parametrize("path", [p for p in sources() if relative(p).startswith(PURE)], ids=relative)
def test_pure_files_have_no_effects(path: Path) -> None:
    impure = [m for m in imports(path) if m.split(".")[0] in IMPURE_MODULES]
    assert not impure, f"{relative(path)} is pure: no I/O, no clock, no randomness, but imports {impure}"


@pytest.mark.parametrize("path", sources(), ids=relative)
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES, (
        f"{relative(path)} is over {FILE_LINES} lines: find the second noun"
    )
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            assert size <= FUNCTION_LINES, f"{relative(path)}:{node.lineno} {node.name} has {size} lines"


@pytest.mark.parametrize("path", [p for p in sources() if room(p) != "fallow"], ids=relative)
def test_nobody_changes_a_sample(path: Path) -> None:
    """They are not frozen, because that alone costs a third of making them (decision 0023)."""
    theirs = {field.name for kind in (GpuSample, ProcessSample) for field in fields(kind)}
    for node in nodes(path):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            where = f"{relative(path)}:{node.lineno}"
            assert is_own or node.attr not in theirs, f"{where} sets {node.attr}: make another one (replace)"


@pytest.mark.parametrize("path", [p for p in sources() if room(p) != "fallow"], ids=relative)
def test_no_child_imports_from_the_folder_that_somebody_stands_in(path: Path) -> None:
    """``python -m`` looks there first; with -P it doesn't. A training's own processes are to look there."""
    for node in nodes(path):
        if isinstance(node, ast.List | ast.Tuple):
            words = [ast.unparse(word) for word in node.elts]
            unsafe = "sys.executable" in words and "'-m'" in words and "'-P'" not in words
            assert not unsafe, f"{relative(path)}:{node.lineno} starts python -m without -P"


@pytest.mark.parametrize("path", sources(), ids=relative)
def test_every_module_says_why_it_exists(path: Path) -> None:
    assert ast.get_docstring(parsed(path)), f"{relative(path)} has no docstring"


def test_the_library_that_rides_along_needs_only_torch() -> None:
    for path in sources():
        if room(path) == "fallow":
            roots = {module.split(".")[0] for module in imports(path)}
            foreign = roots - sys.stdlib_module_names - {"fallow", "torch"} - rides_with(path)
            assert not foreign, f"{relative(path)} imports {foreign}: only the standard library and torch"


def rides_with(path: Path) -> set[str]:
    """The framework that a plug-in is named after (docs/decisions/0005-plug-ins-beside-the-library.md)."""
    return {path.stem} if relative(path.parent) == "fallow/plugins" else set()


def test_plug_ins_are_imported_by_nothing_of_ours() -> None:
    for path in sources():
        if not relative(path).startswith("fallow/plugins/"):
            plugged = [m for m in imports(path) if m.startswith("fallow.plugins")]
            assert not plugged, f"{relative(path)} imports {plugged}: plug-ins are for scripts to import"


def test_init_files_import_nothing_heavy() -> None:
    for path in sources():
        if path.name == "__init__.py":
            heavy = [m for m in imports(path) if m.split(".")[0] in OWNERS]
            assert not heavy, f"{relative(path)} imports {heavy}: heavy imports never sit in an __init__"


@pytest.mark.parametrize("path", sorted(ROOT.glob("*/**/*.sql")), ids=relative)
def test_every_query_has_a_header_and_a_test(path: Path) -> None:
    if ".venv" in path.parts or "tests" in path.parts:
        return
    assert path.read_text().startswith("--"), f"{relative(path)} has no header"
    if path.parent.name == "schema":
        return
    tests = "".join(p.read_text() for p in (ROOT / "tests").rglob("test_*.py"))
    assert path.stem in tests, f"no test names the query {path.stem}"


def test_no_path_of_one_machine_is_committed() -> None:
    roots = tuple(f"/{name}/" for name in ("root", "work"))
    for path in sources():
        text = path.read_text()
        assert not any(root in text for root in roots), f"{relative(path)} names a path of one machine"
