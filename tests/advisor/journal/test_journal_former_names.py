"""What older Fallows wrote and called otherwise is read for ever, and what is written bears today's names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from advisor.actions import Action, Pause
from advisor.jobs.model import Command, JobState, Launcher, Report, StartCommand
from advisor.jobs.repository import read_directives
from advisor.journal.journal import StoreJournal
from advisor.serialize import from_tree, to_tree
from advisor.tags import FORMER_ACTIONS, FORMER_COMMANDS, as_before, as_now, former_command, tag_of, verb_of
from collector.model import JobId, NodeName
from tests.advisor.jobs.job_store_world import GPUS, HandClock, opened, submission
from tests.advisor.journal.journal_parts import T0, Hands

FORMER_VERBS = ("terminate", "tell", "release-caches", "cap-at-next-launch", "promise")
FORMER = [(Action, *each) for each in FORMER_ACTIONS.items()]
FORMER += [(Command, *each) for each in FORMER_COMMANDS.items()]
ACTIONS = {
    "Start", "Resize", "Pause", "Resume", "Requeue", "Move", "ReleaseMemory", "SetEnvAtRestart", "Notify",
    "HoldForJob", "Cancel", "StartBackground",
}  # fmt: skip
COMMANDS = {"Start", "Pause", "Resume", "Reallocate", "ReleaseMemory", "Requeue", "Notify", "Cancel"}
PLAIN: dict[str, Any] = {
    "job": "a", "beside": "b", "number": 3, "gpus": ["g"], "message": "m", "frees_bytes": 1, "settings": [],
    "start_ms": 1,
}  # fmt: skip


def test_an_act_has_one_tag_and_one_verb_whatever_class_bears_it() -> None:
    assert {tag_of(each) for each in get_args(Action)} == ACTIONS
    assert {tag_of(each) for each in get_args(Command)} == COMMANDS
    cap = from_tree(Action, {"is": "SetEnvAtRestart", **PLAIN})
    assert (verb_of(cap), verb_of(Pause(job=JobId("a")))) == ("set-env-at-restart", "pause")
    assert verb_of(from_tree(Command, {"is": "Pause", **PLAIN})) == "pause"


@pytest.mark.parametrize(
    ("kind", "former", "tag"),
    [(Action, *each) for each in FORMER_ACTIONS.items()]
    + [(Command, *each) for each in FORMER_COMMANDS.items()],
)
def test_a_former_tag_is_read_and_todays_is_written(kind: Any, former: str, tag: str) -> None:
    value = from_tree(kind, {"is": former, **PLAIN})
    assert value == from_tree(kind, {"is": tag, **PLAIN})
    assert to_tree(value, kind)["is"] == tag


def test_an_older_launcher_is_told_each_command_by_a_name_that_it_knows() -> None:
    assert {former_command(tag) for tag in COMMANDS} == set(FORMER_COMMANDS)
    assert {FORMER_COMMANDS[former_command(tag)] for tag in COMMANDS} == COMMANDS


def before(text: str, formers: Mapping[str, str]) -> str:
    """JSON as a Fallow of before wrote it."""
    for former, tag in formers.items():
        text = text.replace(f'"is":"{tag}"', f'"is":"{former}"')
    return text


def test_a_store_of_before_has_its_jobs_commands_and_journal(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    job = register.submit(submission())[0].id
    given = register.give(job, StartCommand(number=1, gpus=GPUS[:1]))
    journal = StoreJournal(store, Hands())
    acts = [from_tree(Action, {"is": tag, **PLAIN, "job": job}) for tag in sorted(ACTIONS)]
    numbers = [journal.intends(T0, each) for each in acts]
    verbs = [verb_of(from_tree(Action, {"is": tag, **PLAIN})) for tag in FORMER_ACTIONS.values()]
    with store.writing("playing an older version") as connection:
        for former, verb in zip(FORMER_VERBS, verbs, strict=True):
            connection.execute("UPDATE intents SET verb = ? WHERE verb = ?", [former, verb])
        for table, column, formers in (
            ("intents", "step", FORMER_ACTIONS),
            ("entries", "body", FORMER_COMMANDS),
            ("directives", "body", FORMER_COMMANDS),
        ):
            for (text,) in connection.execute(f"SELECT {column} FROM {table}").fetchall():
                old = before(text, formers)
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", [old, text])
        connection.execute("DELETE FROM schema_migrations WHERE number = 58")
        written = {row[0] for row in connection.execute("SELECT verb FROM intents").fetchall()}
    assert written >= set(FORMER_VERBS)
    store.close()
    store, register = opened(tmp_path, HandClock())
    assert register.entry(job).directive == given.directive
    assert [row["body"] for row in read_directives(store, job)] == [given.directive]
    deeds = [StoreJournal(store, Hands()).deed(number) for number in numbers]
    assert [(each.step, each.verb) for each in deeds if each] == [(act, verb_of(act)) for act in acts]
    store.close()


def test_a_former_name_of_a_field_is_read_and_can_be_said_again() -> None:
    report = Report(
        at_ms=1, launcher=Launcher(node=NodeName("n"), pid=2, started_ms=3), state=JobState.PAUSED
    )
    former = as_before(Report, to_tree(report))
    assert former["stand"] == "paused" and "state" not in former
    assert from_tree(Report, former) == report == from_tree(Report, as_now(Report, former))
    both = {**to_tree(report), "stand": "ended"}
    assert from_tree(Report, both) == report, "today's goes before"
