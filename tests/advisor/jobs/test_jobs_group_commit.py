"""Changes that come at the same time share a commit, and whatever becomes of it each one hears."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from advisor.jobs.job_store import Register
from collector.store.database import Store
from tests.advisor.jobs.job_store_world import HandClock, opened, submission

CROWD = 30
PATIENCE_S = 30


class Crowd:
    """Threads that submit a job each; ``kept`` are their jobs, ``errors`` what those heard who got none."""

    def __init__(self, register: Register) -> None:
        self.kept: dict[str, str] = {}
        self.errors: list[Exception] = []
        self._register = register
        self._ready = threading.Barrier(CROWD + 1)
        self._threads = [
            threading.Thread(target=self._submit, args=(str(n),), daemon=True) for n in range(CROWD)
        ]

    def come(self) -> None:
        for thread in self._threads:
            thread.start()
        self._ready.wait(PATIENCE_S)

    def leave(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "somebody waits for ever"

    def _submit(self, nonce: str) -> None:
        self._ready.wait(PATIENCE_S)
        try:
            self.kept[nonce] = self._register.submit(submission(nonce=nonce))[0].id
        except Exception as error:
            self.errors.append(error)


@contextmanager
def without_a_table(store: Store) -> Iterator[None]:
    """A store that cannot keep entries, until the block is over."""
    with store.writing("breaking the store") as connection:
        connection.execute("ALTER TABLE entries RENAME TO aside")
        yield
    # Whoever came meanwhile waited for this commit, and finds no table.


def test_whoever_waited_for_a_commit_that_failed_hears_of_it_and_may_ask_again(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    with store:
        crowd = Crowd(register)
        with without_a_table(store):
            crowd.come()
        crowd.leave()
        assert crowd.kept == {} and len(crowd.errors) == CROWD
        assert register.entries() == {}
        with store.writing("mending the store") as connection:
            connection.execute("ALTER TABLE aside RENAME TO entries")
        again = Crowd(register)
        again.come()
        again.leave()
        assert again.errors == [] and len(set(again.kept.values())) == CROWD
        assert {entry.submission.nonce for entry in register.entries().values()} == set(again.kept)


def test_a_crowd_that_waited_is_kept_whole_and_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    crowd = Crowd(register)
    with store.writing("holding everybody up"):
        crowd.come()
    crowd.leave()
    assert crowd.errors == [] and list(register.entries()) == [f"fallow:{n + 1}" for n in range(CROWD)]
    store.close()
    store, register = opened(tmp_path, HandClock())
    with store:
        assert {entry.submission.nonce: entry.id for entry in register.entries().values()} == crowd.kept


def test_the_same_submission_sent_many_times_at_once_is_one_job(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    with store:
        found: list[tuple[str, bool]] = []

        def submit() -> None:
            entry, new = register.submit(submission(nonce="one"))
            found.append((entry.id, new))

        threads = [threading.Thread(target=submit, daemon=True) for _ in range(CROWD)]
        with store.writing("holding everybody up"):
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert [new for _, new in found].count(True) == 1
        assert {id for id, _ in found} == {"fallow:1"} and len(found) == CROWD


def test_what_went_wrong_is_said_and_not_what_followed_from_it(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    with store:
        with store.writing("breaking the store") as connection:
            connection.execute("ALTER TABLE entries RENAME TO aside")
        with pytest.raises(Exception, match="entries does not exist"):
            register.submit(submission(nonce="one"))
