"""Holds the house to its plan: who may import whom, who owns which dependency, and how big things get.

When a rule hurts, change the rule and ``docs/dev/architecture.md`` together, and say why.
"""

import ast
import gc
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

from collector.model import GpuSample, ProcessSample

ROOT = Path(__file__).parents[1]
OURS = ("collector", "analytics", "advisor", "service", "fallow", "app")
FUNCTION_LINES = 60
FILE_LINES = 400

PURE = (
    "collector/attribution.py",
    "collector/model.py",
    "collector/metrics.py",
    "collector/declared_metric.py",
    "collector/gpu_place.py",
    "collector/managers/kubernetes/devices.py",
    "collector/managers/kubernetes/pods.py",
    "collector/managers/kubernetes/queues.py",
    "collector/managers/model.py",
    "collector/managers/owner_word.py",
    "collector/managers/slurm/details.py",
    "collector/managers/slurm/gres.py",
    "collector/managers/slurm/node_text.py",
    "collector/managers/slurm/queue_text.py",
    "collector/managers/slurm/reuse.py",
    "collector/managers/source.py",
    "collector/source.py",
    "analytics/findings",
    "analytics/model.py",
    "analytics/profiles.py",
    "analytics/text.py",
    "analytics/vocabulary",
    "advisor/actions.py",
    "advisor/burst",
    "advisor/decide.py",
    "advisor/explain.py",
    "advisor/jobs/command_outcomes.py",
    "advisor/jobs/gpu_sharing.py",
    "advisor/jobs/lifecycle.py",
    "advisor/jobs/memory_watchdog.py",
    "advisor/jobs/model.py",
    "advisor/jobs/slowdown_watchdog.py",
    "advisor/jobs/with_snapshot.py",
    "advisor/journal/in_progress.py",
    "advisor/journal/proposals.py",
    "advisor/journal/records.py",
    "advisor/outcomes.py",
    "advisor/planner",
    "advisor/policies",
    "advisor/serialize.py",
    "advisor/sim/job.py",
    "advisor/sim/usage.py",
    "advisor/state/",
    "advisor/tags.py",
    "advisor/whatif",
    "fallow/burst/table.py",
    "fallow/burst/plan.py",
    "service/alerts/blindness.py",
    "service/alerts/ended_jobs.py",
    "service/alerts/facts.py",
    "service/alerts/idle.py",
    "service/alerts/lifecycle.py",
    "service/alerts/messages.py",
    "service/alerts/model.py",
    "service/alerts/phrases.py",
    "service/alerts/receivers.py",
    "service/alerts/rules.py",
    "service/alerts/strangers.py",
    "service/alerts/whole_jobs.py",
    "service/charts",
    "service/names.py",
    "service/energy.py",
    "service/schemas/answer.py",
    "service/schemas/control.py",
    "service/schemas/headers.py",
    "service/schemas/records.py",
    "service/schemas/service.py",
    "service/schemas/values.py",
    "service/summaries",
    "service/wording.py",
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
        "collector.file_trust",
        "collector.gpu_place",
        "collector.inventory",
        "collector.managers",
        "collector.procfs",
        "collector.snapshot",
        "collector.store",
        "fallow.burst.plan",
        "fallow.burst.table",
        "fallow.protocol",
        "fallow.data.batch_plan",
        "fallow.controller.membership",
    ),
    "advisor/state": ("advisor.state", "analytics.vocabulary", "collector.model"),
    "advisor/planner": (
        "advisor.actions",
        "advisor.planner",
        "advisor.state",
        "advisor.tags",
        "analytics",
        "collector.model",
    ),
    "advisor/policies": (
        "advisor.actions",
        "advisor.planner",
        "advisor.policies",
        "advisor.state",
        "analytics",
        "collector.model",
    ),
    "service": OURS[:-1],
    "service/schemas": (
        "collector.spreadsheet",
        "service.schemas",
    ),
    "service/trust": (
        "collector.file_trust",
        "collector.procfs",
        "collector.toml_text",
        "service.errors",
        "service.trust",
    ),
    "service/health": (
        "collector.clock",
        "service.health",
    ),
    "service/config": (
        "advisor",
        "analytics",
        "collector.toml_text",
        "service.config",
        "service.data_folder",
        "service.durations",
        "service.errors",
        "service.logs",
        "service.secrets",
        "service.summaries.run_links",
        "service.trust",
    ),
    "service/store": (
        "analytics.query",
        "collector.store",
        "service.config",
        "service.data_folder",
        "service.errors",
        "service.schemas",
        "service.store",
    ),
    "service/client": (
        "service.client",
        "service.data_folder",
        "service.errors",
        "service.printable",
        "service.schemas",
        "service.store",
        "service.trust",
    ),
    "service/api": (
        "advisor",
        "analytics.query",
        "analytics.text",
        "collector",
        "service.api",
        "service.control.errors",
        "service.control.interface",
        "service.data_folder",
        "service.errors",
        "service.logs",
        "service.names",
        "service.schemas",
        "service.store",
        "service.trust",
        "service.usecases",
    ),
    "service/control": (
        "advisor",
        "analytics.text",
        "collector",
        "service.alerts",
        "service.config",
        "service.control",
        "service.errors",
        "service.health",
        "service.logs",
        "service.names",
        "service.notify",
        "service.privileged",
        "service.schemas",
        "service.store",
        "service.trust",
        "service.usecases",
    ),
    "service/notify": (
        "collector",
        "service.config",
        "service.notify",
        "service.errors",
        "service.printable",
        "service.secrets",
    ),
    "service/remote_write": (
        "collector.dcgm.fetch",
        "collector.metrics_endpoint",
        "service.config",
        "service.errors",
        "service.printable",
        "service.remote_write",
        "service.secrets",
    ),
    "service/charts": (
        "analytics.text",
        "analytics.vocabulary",
        "collector.declared_metric",
        "collector.gpu_place",
        "collector.metrics",
        "service.charts",
        "service.schemas",
        "service.usecases.advised",
        "service.wording",
    ),
    "service/summaries": (
        "analytics.job_verdict",
        "analytics.text",
        "analytics.vocabulary",
        "service.charts",
        "service.energy",
        "service.schemas",
        "service.summaries",
        "service.wording",
    ),
    "service/usecases": (
        "advisor",
        "analytics",
        "collector",
        "service.client",
        "service.config",
        "service.notify",
        "service.errors",
        "service.schemas",
        "service.summaries",
        "service.usecases",
    ),
    "service/reports": (
        "advisor",
        "analytics.text",
        "analytics.vocabulary",
        "service.charts",
        "service.client",
        "service.config",
        "service.durations",
        "service.energy",
        "service.errors",
        "service.notify",
        "service.printable",
        "service.reports",
        "service.schemas",
        "service.summaries",
        "service.trust",
        "service.usecases",
        "service.wording",
    ),
    "service/pages": (
        "analytics.text",
        "analytics.vocabulary",
        "service.charts",
        "service.client",
        "service.data_folder",
        "service.energy",
        "service.errors",
        "service.pages",
        "service.printable",
        "service.reports",
        "service.schemas",
        "service.summaries",
        "service.trust",
        "service.usecases",
        "service.wording",
    ),
    "app": ("service.client", "service.pages"),
}

OWNERS = {
    "pynvml": ("collector/sources/nvml",),
    "duckdb": ("collector/store",),
    "prometheus_client": ("collector/dcgm", "service/remote_write"),
    "aiohttp": ("collector/dcgm",),
    "google": ("service/pages/server/drawing_turns.py", "service/remote_write/wire.py"),
    "httpx": (
        "collector/managers/kubernetes/api.py",
        "collector/managers/ray/api.py",
        "collector/sources/prometheus",
        "service/node/push.py",
        "service/remote_write",
    ),
    "apscheduler": ("service/server", "service/reports/due.py"),
    "apprise": ("service/notify",),
    "jinja2": ("service/reports",),
    "torch": ("fallow",),
    "streamlit": ("app.py", "service/pages"),
    "altair": ("service/charts", "service/pages", "service/cli/chart_runs.py"),
    "vl_convert": ("service/reports",),
    "pandas": (
        "service/charts",
        "service/client",
        "service/pages",
        "service/reports",  # types alone: what it asks are frames
        "service/summaries",
    ),
    "fastapi": ("service/api",),
    "uvicorn": ("service/server",),
    "rich": ("service/cli",),
    "rustworkx": ("advisor/planner/pairing.py",),
    "matplotlib": (),
    "highspy": (),
}


@cache
def sources() -> list[Path]:
    door = ROOT / "app.py"
    files = [path for name in OURS[:-1] for path in sorted((ROOT / name).rglob("*.py"))]
    return [*files, door] if door.is_file() else files


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def trees() -> dict[Path, tuple[ast.Module, tuple[ast.AST, ...]]]:
    """Each file and all its nodes, gone through once for all that is asked of them."""
    gc.disable()  # else Python looks for garbage among the nodes again and again: two thirds of the time
    try:
        made = {path: ast.parse(path.read_text()) for path in sources()}
        return {path: (tree, tuple(ast.walk(tree))) for path, tree in made.items()}
    finally:
        gc.enable()


def parsed(path: Path) -> ast.Module:
    return trees()[path][0]


def nodes(path: Path) -> tuple[ast.AST, ...]:
    return trees()[path][1]


def imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(path: Path) -> str:
    """The row of ``MAY_IMPORT`` that a file falls under: its own folder's where there is one."""
    whole, inner, *_ = *relative(path).removesuffix(".py").split("/"), ""
    return f"{whole}/{inner}" if f"{whole}/{inner}" in MAY_IMPORT else whole


def listed(offenders: list[str]) -> str:
    """All of them, a line each: who broke a rule sees it whole at once."""
    return "\n".join(["", *offenders])


def within(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def test_imports_point_back_up_the_hall() -> None:
    broken = [
        f"{relative(path)} imports {module}, but may only {MAY_IMPORT[room(path)]}"
        for path in sources()
        for module in imports(path)
        if module.split(".")[0] in OURS and not within(module, MAY_IMPORT[room(path)])
    ]
    assert not broken, listed(broken)


TOWARDS_EACH_OTHER: set[tuple[str, str]] = set()
"""Pairs of folders that import each other; none is to be added."""


def test_no_two_folders_of_service_or_advisor_import_each_other() -> None:
    arrows = {
        ("/".join(relative(path).split("/")[:2]), "/".join(module.split(".")[:2]))
        for path in sources()
        if relative(path).count("/") > 1 and relative(path).startswith(("service/", "advisor/"))
        for module in imports(path)
        if module.split(".")[0] == relative(path).split("/")[0]
        and (ROOT / "/".join(module.split(".")[:2])).is_dir()
    }
    pairs = {(one, other) for one, other in arrows if one < other and (other, one) in arrows}
    assert pairs == TOWARDS_EACH_OTHER


def test_imports_are_by_full_name() -> None:
    broken = [
        f"{relative(path)}:{node.lineno} imports relatively"
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not broken, listed(broken)


def test_heavy_dependencies_have_one_owner() -> None:
    broken = [
        f"{relative(path)} imports {module}, which belongs to {owners}"
        for path in sources()
        for module in imports(path)
        if (owners := OWNERS.get(module.split(".")[0])) is not None and not relative(path).startswith(owners)
    ]
    assert not broken, listed(broken)


FORMATTERS = {
    "coverage", "gib", "gibibytes", "how_many", "kwh", "length_cell", "many", "megahertz",
    "money", "percent", "percent_covered", "plural", "watts",
}  # fmt: skip
"""What a function that writes a kind of value would be called, were there a second one."""
UNIT = re.compile(r"^ ?(%|[KMG]iB|GPU-hours|kWh|min\b|d\b)")
"""What stands behind a number that is formatted by hand: a unit that ``analytics.text`` writes."""
ROUNDED = re.compile(r"(\.\d[f%]|%)$")


def _by_hand(path: Path) -> Iterator[str]:
    """Values with a unit that are rounded in their own f-string, and functions named as a formatter."""
    for node in nodes(path):
        if (
            isinstance(node, ast.FunctionDef)
            and node.name.lstrip("_") in FORMATTERS
            and isinstance(node.returns, ast.Name)
            and node.returns.id == "str"
        ):
            yield f"{relative(path)}:{node.lineno} defines {node.name}"
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, behind in zip(node.values, [*node.values[1:], None], strict=True):
            spec = value.format_spec if isinstance(value, ast.FormattedValue) else None
            shape = "".join(
                str(part.value) for part in getattr(spec, "values", ()) if isinstance(part, ast.Constant)
            )
            unit = str(behind.value) if isinstance(behind, ast.Constant) else ""
            if shape.endswith("%") or (ROUNDED.search(shape) and UNIT.match(unit)):
                yield f"{relative(path)}:{node.lineno} writes {{:{shape}}}{unit[:12]!r}"


def test_a_kind_of_value_has_one_formatter() -> None:
    """Percent, lengths of time, bytes, hours, money: a second way to write one reads as a second number."""
    told = [
        each
        for path in sources()
        if relative(path).startswith(("analytics", "advisor", "service", "app"))
        and relative(path) != "analytics/text.py"
        for each in _by_hand(path)
    ]
    assert not told, f"analytics/text.py writes these: {listed(told)}"


def test_pure_files_have_no_effects() -> None:
    """No I/O, no clock, no randomness."""
    broken = [
        f"{relative(path)} is pure, but imports {module}"
        for path in sources()
        if relative(path).startswith(PURE)
        for module in imports(path)
        if module.split(".")[0] in IMPURE_MODULES
    ]
    assert not broken, listed(broken)


def test_pure_names_are_of_files_that_exist() -> None:
    names = [relative(path) for path in sources()]
    gone = [name for name in PURE if not any(each.startswith(name) for each in names)]
    assert not gone, f"PURE names what isn't there: {gone}"


def test_files_stay_small() -> None:
    long = [
        f"{relative(path)} has {lines} lines, over {FILE_LINES}: find the second noun"
        for path in sources()
        if (lines := path.read_text().count("\n")) > FILE_LINES
    ]
    assert not long, listed(long)


UNTYPED = 57
"""``Any`` in the annotations of ``service/`` as it stands: 588 before bodies and rows had types.

It may only fall: what has no type is checked by nobody before it runs."""


def untyped(path: Path) -> int:
    """How often a file names ``Any``, in quoted annotations too; imports don't count."""
    found = 0
    for node in nodes(path):
        if isinstance(node, ast.Name) and node.id == "Any":
            found += 1
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            for part in () if annotation is None else ast.walk(annotation):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found += len(re.findall(r"\bAny\b", part.value))
    return found


def test_types_of_the_service_get_no_fewer() -> None:
    counted = {relative(path): untyped(path) for path in sources() if relative(path).startswith("service/")}
    most = sorted(counted, key=lambda name: -counted[name])[:5]
    assert sum(counted.values()) <= UNTYPED, (
        f"Any stands {sum(counted.values())} times in service/, and UNTYPED says {UNTYPED}: "
        f"name the types of what is new. Most are in {', '.join(most)}"
    )


def test_functions_stay_small() -> None:
    long = [
        f"{relative(path)}:{node.lineno} {node.name} has {size} lines, over {FUNCTION_LINES}"
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    ]
    assert not long, listed(long)


def test_nobody_changes_a_sample() -> None:
    """They are not frozen, because that alone costs a third of making them (decision 0023)."""
    theirs = {field.name for kind in (GpuSample, ProcessSample) for field in fields(kind)}
    broken = [
        f"{relative(path)}:{node.lineno} sets {node.attr}: make another one (replace)"
        for path in sources()
        if room(path) != "fallow"
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
        if node.attr in theirs and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]
    assert not broken, listed(broken)


def test_no_child_imports_from_the_folder_that_somebody_stands_in() -> None:
    """``python -m`` looks there first; with -P it doesn't. A training's own processes are to look there."""
    unsafe = [
        f"{relative(path)}:{node.lineno} starts python -m without -P"
        for path in sources()
        if room(path) != "fallow"
        for node in nodes(path)
        if isinstance(node, ast.List | ast.Tuple)
        if {"sys.executable", "'-m'"} <= (words := {ast.unparse(word) for word in node.elts})
        and "'-P'" not in words
    ]
    assert not unsafe, listed(unsafe)


def test_every_module_says_why_it_exists() -> None:
    silent = [relative(path) for path in sources() if not ast.get_docstring(parsed(path))]
    assert not silent, f"without a docstring: {listed(silent)}"


def test_the_library_that_rides_along_needs_only_torch() -> None:
    broken = [
        f"{relative(path)} imports {root}: only the standard library and torch"
        for path in sources()
        if room(path) == "fallow"
        for root in sorted({module.split(".")[0] for module in imports(path)})
        if root not in sys.stdlib_module_names | {"fallow", "torch"} | rides_with(path)
    ]
    assert not broken, listed(broken)


BENEATH = {"transformers": {"accelerate"}}
"""What a framework itself is built on, and hands to a plug-in."""


def rides_with(path: Path) -> set[str]:
    """The framework that a plug-in is named after (docs/decisions/0005-plug-ins-beside-the-library.md)."""
    own = {path.stem} | BENEATH.get(path.stem, set())
    return own if relative(path.parent) == "fallow/plugins" else set()


def test_plug_ins_are_imported_by_nothing_of_ours() -> None:
    broken = [
        f"{relative(path)} imports {module}: plug-ins are for scripts to import"
        for path in sources()
        if not relative(path).startswith("fallow/plugins/")
        for module in imports(path)
        if module.startswith("fallow.plugins")
    ]
    assert not broken, listed(broken)


def test_init_files_import_nothing_heavy() -> None:
    broken = [
        f"{relative(path)} imports {module}: heavy imports never sit in an __init__"
        for path in sources()
        if path.name == "__init__.py"
        for module in imports(path)
        if module.split(".")[0] in OWNERS
    ]
    assert not broken, listed(broken)


def test_every_query_has_a_header() -> None:
    silent = [relative(path) for path in queries() if not path.read_text().startswith("--")]
    assert not silent, f"without a header: {listed(silent)}"


def test_every_query_has_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    untested = [
        relative(path) for path in queries() if path.parent.name != "schema" and path.stem not in tests
    ]
    assert not untested, f"no test names these queries: {listed(untested)}"


def queries() -> list[Path]:
    return [path for name in OURS[:-1] for path in sorted((ROOT / name).rglob("*.sql"))]


RUNS_WHAT_IT_READS = {"pickle", "shelve", "dill", "cloudpickle", "joblib", "marshal"}
READS_ITS_OWN_CHILD = {"collector/sources/nvml/wire.py": {"marshal"}}
"""One interpreter on both ends of a pipe that nobody else holds."""


def test_nothing_is_read_that_could_run_code() -> None:
    """What a peer, a file or a client sends is data: tensors, JSON, TOML, Parquet."""
    for path in sources():
        roots = {module.split(".")[0] for module in imports(path)} & RUNS_WHAT_IT_READS
        assert roots <= READS_ITS_OWN_CHILD.get(relative(path), set()), f"{relative(path)} imports {roots}"
        for node in nodes(path):
            if isinstance(node, ast.Call):
                why = runs_what_it_reads(node)
                assert why is None, f"{relative(path)}:{node.lineno} {why}"


def runs_what_it_reads(call: ast.Call) -> str | None:
    """What is wrong with a call whose words could run code; ``None`` for any other."""
    called = ast.unparse(call.func)
    given = {word.arg: ast.unparse(word.value) for word in call.keywords}
    if called in {"eval", "exec"} or called.startswith("multiprocessing.connection"):
        return f"calls {called}"
    if called == "torch.load" and given.get("weights_only") != "True":
        return "calls torch.load: say weights_only=True"
    return "allows pickles" if given.get("allow_pickle", "False") != "False" else None


def test_no_path_of_one_machine_is_committed() -> None:
    roots = tuple(f"/{name}/" for name in ("root", "work"))
    broken = [relative(path) for path in sources() if any(root in path.read_text() for root in roots)]
    assert not broken, f"these name a path of one machine: {listed(broken)}"
