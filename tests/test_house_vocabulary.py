"""Holds the house to its vocabulary: what names a state, finding, action, alert or report is no literal."""

import re
from collections.abc import Mapping
from typing import Final

from analytics.vocabulary.actions import ActionClass
from analytics.vocabulary.alerts import AlertKind
from analytics.vocabulary.findings import KINDS, FindingKind
from analytics.vocabulary.jobs import SUBMITTED
from analytics.vocabulary.patterns import PatternKind
from analytics.vocabulary.reports import ReportKind
from analytics.vocabulary.states import GpuState
from collector.model import WASTE_STATES
from collector.sources.simulated import labels
from tests.test_house import ast, listed, nodes, queries, relative, sources

VOCABULARY: Final = (GpuState, FindingKind, PatternKind, ActionClass, AlertKind, ReportKind)
HOMES = ("analytics/vocabulary/", "collector/model.py", "collector/sources/simulated/labels.py")
"""Where names are given. The labels of what is simulated are the truth that findings are held against, and
``collector`` may not import what judges."""

NAMES = {each.value for names in VOCABULARY for each in names} - {"unknown", "waited"}
"""All names but two words: whoever isn't known is unknown, how long a job waited is a column of tables."""

OF_SOMETHING_ELSE: Mapping[str, set[str]] = {
    # a seed of what is simulated: other text, other draws
    "collector/sources/simulated/intruders.py": {"intruder"},
    # the metric fallow_gpu_withheld
    "collector/metrics_endpoint.py": {"withheld"},
    # the verb, as it is typed, sent, consented to and refused
    "advisor/engines/external.py": {"resize"},
    "advisor/planner/consent.py": {"resize"},
    # what a style sheet colours behind text
    "service/reports/charts.py": {"background"},
    # a field of a submission
    "service/launcher/submitting.py": {"background"},
    "service/pages/data/jobs.py": {"background"},
    "fallow/controller/requests.py": {"resize"},
    "service/cli/consent.py": {"resize"},
    "service/cli/job_flags.py": {"resize"},
    "service/cli/parser.py": {"resize"},
    "service/cli/verb_groups.py": {"resize"},
    "service/client/jobs.py": {"resize"},
    "service/control/job_commands.py": {"resize"},
    "service/pages/parts/job_buttons.py": {"resize"},
    # whether what was measured may be acted on (Telemetry)
    "advisor/state/model.py": {"good", "suspect"},
    # what a check of the doctor found
    "service/doctor_checks/results.py": {"good"},
    # the table of the report, as a CSV file of it is called
    "service/reports/chargeback.py": {"chargeback"},
    # the level of a fault (its AlertKind is GPU_FAULT)
    "service/alerts/rules.py": {"suspect"},
    # the code of an answer, and an event of the journal: an order came too late
    "service/api/app.py": {"job-ended"},
    "service/errors.py": {"job-ended"},
    "service/control/activity.py": {"job-ended"},
}
"""Words that are a name of the vocabulary as well, file by file."""


def _spelled() -> list[tuple[str, int, str]]:
    return [
        (relative(path), node.lineno, node.value)
        for path in sources()
        if not relative(path).startswith(HOMES)
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES
    ]


def test_no_file_but_the_vocabulary_spells_a_name() -> None:
    broken = [
        f"{name}:{line} spells {value!r}: use the member of analytics/vocabulary"
        for name, line, value in _spelled()
        if value not in OF_SOMETHING_ELSE.get(name, ())
    ]
    assert not broken, listed(broken)


def test_words_of_something_else_are_still_there() -> None:
    spelled = {(name, value) for name, _, value in _spelled()}
    gone = [(name, word) for name, words in OF_SOMETHING_ELSE.items() for word in words]
    assert set(gone) <= spelled


def test_no_file_but_the_vocabulary_spells_how_ids_of_submitted_jobs_begin() -> None:
    """A message to the terminal begins with ``fallow: ``: the name of the program, and a space."""
    broken = [
        f"{relative(path)}:{node.lineno}: use is_submitted or submitted_id of analytics/vocabulary/jobs.py"
        for path in sources()
        if not relative(path).startswith(HOMES)
        for node in nodes(path)
        if isinstance(node, ast.Constant) and node.value == SUBMITTED
    ]
    assert not broken, listed(broken)


ASKS_BY_ID = {
    "advisor/planner/consent.py",  # what a job's owner may allow: pure, of the job alone
    "advisor/state/model.py",  # hands it on
    "service/cli/explain.py",  # an id or a name that a person typed
    "service/control/engines.py",  # says so once for all who act
    "service/pages/submitted_jobs.py",  # an id in a row that the service answered
    "service/summaries/recommendations.py",
}


def test_who_acts_asks_the_engines_whose_a_job_is() -> None:
    """``Dispatch.by_launcher``: an engine says which jobs are its own, and its ids are its own affair."""
    askers = {
        relative(path)
        for path in sources()
        if relative(path).startswith(("advisor/", "service/"))
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and any(each.name == "is_submitted" for each in node.names)
    }
    assert askers == ASKS_BY_ID


HYPHENED = re.compile(r"'([a-z]+(?:-[a-z]+)+)'")
LISTED = re.compile(r"\b(?:kind|state)\s+(?:NOT )?IN \(('[^)]*')\)")
OF_SQL_ALONE = {
    # events of a GPU
    "gpu-lost", "gpu-returned",
    # verbs of the journal
    "release-memory", "release-caches", "hold-for-job",
    "set-env-at-restart", "cap-at-next-launch",
}  # fmt: skip
"""What queries and schema steps spell beside the vocabulary's names."""
SETS = (
    {kind.value for kind, words in KINDS.items() if words.is_of_job},
    {kind.value for kind, words in KINDS.items() if not words.is_waste},
    {state.value for state in WASTE_STATES},
    {GpuState.FREE.value, GpuState.UNKNOWN.value},
    {GpuState.SUSPECT.value, GpuState.UNKNOWN.value},
    {GpuState.LOW_SATURATION.value, GpuState.MODERATE.value, GpuState.GOOD.value},
)
"""Kinds and states that queries take together: the vocabulary's own sets, and which states may be withheld,
say nothing of use, or are use."""


def test_queries_spell_names_that_there_are() -> None:
    strange = [
        f"{relative(path)} spells {value!r}"
        for path in queries()
        for value in HYPHENED.findall(path.read_text())
        if value not in NAMES | OF_SQL_ALONE
    ]
    assert not strange, listed(strange)


def test_queries_take_the_same_names_together() -> None:
    lists = [
        (relative(path), set(re.findall(r"'([^']*)'", values)))
        for path in queries()
        for values in LISTED.findall(path.read_text())
    ]
    assert len(lists) > 5
    strange = [f"{name}: {sorted(values)}" for name, values in lists if values not in SETS]
    assert not strange, listed(strange)


def test_what_is_simulated_knows_the_same_kinds() -> None:
    assert {each.value for each in labels.FindingKind} < {each.value for each in FindingKind}
