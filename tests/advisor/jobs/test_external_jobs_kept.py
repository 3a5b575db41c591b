"""What is kept of foreign jobs, statement by statement, on a real store.

Written by add_telling, add_keep, add_checkpoint and end_checkpoint; read by read_checkpoints, read_holder and
the named query spoken.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.jobs.external_jobs import ExternalJobStore, Holder, Paused
from advisor.state.owner_replies import Keep, Telling
from collector.model import JobId, JobKind
from collector.store.database import Store
from tests.advisor.engines.external_parts import GPU, HandClock, Machine, job_id, opened, process

JOB = job_id(71)


@pytest.fixture
def there(tmp_path: Path) -> Iterator[tuple[Store, ExternalJobStore, HandClock]]:
    clock = HandClock()
    with opened(tmp_path, clock) as (store, book):
        yield store, book, clock


def test_what_was_told_and_kept_is_remembered_in_order_for_a_month(
    there: tuple[Store, ExternalJobStore, HandClock],
) -> None:
    _, book, clock = there
    began_ms = clock.now_ms()
    book.told(JOB, "tell", "It idles.", ("terminal pts/1", "mail"))
    clock.sleep(60)
    book.told(JOB, "tell", "It idles.", ())
    clock.sleep(60)
    kept = book.keep(JOB, clock.now_ms() + 4 * 3_600_000, "ann")
    assert book.words() == (
        Telling(job=JOB, at_ms=began_ms, reached="terminal pts/1, mail"),
        Telling(job=JOB, at_ms=began_ms + 60_000, reached=None),
        Keep(job=JOB, at_ms=began_ms + 120_000, until_ms=kept.until_ms, by_user="ann"),
    )
    clock.sleep(31 * 86_400)
    assert book.words() == ()


def test_whose_job_it_is_comes_from_whoever_held_a_gpu(
    there: tuple[Store, ExternalJobStore, HandClock],
) -> None:
    store, book, clock = there
    assert book.holder(JOB) is None
    Machine(store, clock).sees([process(71)], JOB)
    assert book.holder(JOB) == Holder(
        user="ann", project="lab", name="notebook", kind=JobKind.INTERACTIVE, framework=None
    )


def test_a_checkpoint_is_open_until_it_is_ended_and_then_history(
    there: tuple[Store, ExternalJobStore, HandClock],
) -> None:
    store, book, clock = there
    machine = Machine(store, clock)
    machine.sees([process(71)], JOB)
    paused = Paused(job=JOB, holder=Holder(user="ann"), processes=machine.processes_of(JOB), gpus=(GPU,))
    book.begin(paused, 7)
    known = book.paused(JOB)
    assert known is not None and (known.paused, known.intent) == (paused, 7)
    assert book.paused(JobId("pid:here/72@1")) is None
    clock.sleep(60)
    book.end(JOB, "resumed")
    assert book.paused(JOB) is None
    assert book.checkpoints() == () or book.checkpoints()[0].ended_as == "resumed"
    (past,) = book.checkpoints(0)
    assert (past.ended_as, past.ended_ms) == ("resumed", clock.now_ms())


def test_ending_one_leaves_other_jobs_and_earlier_attempts_alone(
    there: tuple[Store, ExternalJobStore, HandClock],
) -> None:
    _, book, clock = there
    other = JobId("pid:here/72@1")
    for job, intent in ((JOB, 1), (other, 2)):
        book.begin(Paused(job=job, holder=Holder(), processes=(), gpus=(GPU,)), intent)
    book.end(JOB, "failed")
    clock.sleep(1)
    book.begin(Paused(job=JOB, holder=Holder(), processes=(), gpus=(GPU,)), 3)
    clock.sleep(1)
    book.end(JOB, "resumed")
    ended = {each.intent: each.ended_as for each in book.checkpoints(0)}
    assert ended == {1: "failed", 2: None, 3: "resumed"}
