"""The starts of a head in its store: a new one, a take-over, and that another head is the one."""

import secrets
from typing import TYPE_CHECKING

from collector.sources.nodes.terms import Term, sealed, word_of
from collector.store.statements import statement

if TYPE_CHECKING:
    from collector.store.database import Store

WORD_BYTES = 8
"""Two starts with one word in a site's life: never."""


def begin_term(
    store: "Store", key: bytes, now_ms: int, *, takes_over: bool = False, machine: str = ""
) -> tuple[Term, dict[int, str], str | None]:
    """A new start: its term, the words of this epoch's starts by their counts, and why it is not the head.

    A head that another one has superseded stays so over restarts, until it ``takes_over`` at a person's word.
    ``machine`` is the name by which people know where it runs.
    Raises StoreFull.
    """
    with store.writing("noting the head's start") as connection:
        rows = connection.execute(statement("head_terms")).fetchall()
        start, epoch, superseded = 1, 0, None
        if rows:
            start, epoch, superseded = rows[0][0] + 1, rows[0][1], rows[0][3]
        if takes_over:  # later than any before, also where a clock was set back meanwhile
            epoch, superseded = max(epoch + 1, now_ms), None
        term = sealed(key, epoch=epoch, start=start, word=word_of(secrets.token_hex(WORD_BYTES), machine))
        row = {"start": start, "epoch": epoch, "word": term.word, "at_ms": now_ms, "superseded": superseded}
        connection.execute(statement("begin_head_term"), row)
        connection.execute(statement("forget_head_terms"))
    words = {row[0]: row[2] for row in rows if row[1] == epoch} | {start: term.word}
    return term, words, superseded


def supersede(store: "Store", because: str) -> None:
    """Keep that another head is the one. Raises StoreFull."""
    with store.writing("noting that another head is the one") as connection:
        connection.execute(statement("supersede_head"), {"superseded": because})
