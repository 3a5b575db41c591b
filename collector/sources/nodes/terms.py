"""Which head is the one: what two heads of one site's nodes know each other by. Pure.

Each start of a head on its store is a *term*: the epoch, which only a person's take-over raises; the count of
starts of that store; and a random word, made at the start. A node keeps the newest term that it has heard
and says it with each request. So a head learns of another one from the first node that has heard both:

    the node has heard          this head
    a later epoch               was taken over: it steps down
    a later start, same epoch   is a copy of that store, or was restored from a back-up: it steps down
    this or an earlier start,   goes on where that start is its store's own; else two copies began apart,
    same epoch                  and it steps down
    an earlier epoch            took over: it goes on

A term is sealed by the key of the head's DATA folder, which a back-up has as well: a node can't invent one.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

LONGEST_MACHINE = 64
"""The longest name that Linux gives a machine (HOST_NAME_MAX, gethostname(2))."""
TAKE_OVER = "if this is to be the head, stop it and run `fallow store take-over` on it, and end the other one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One start of a head. ``epoch`` is when somebody had it take over (UTC ms), 0 where nobody ever did.

    ``word`` is random, and behind an ``@`` the name of the head's machine: so it travels under the seal, and
    through nodes of every version. Heads of 0.1.0 name none.
    """

    epoch: int
    start: int
    word: str
    seal: str = ""

    @property
    def head(self) -> str:
        """The head in words: by its machine, where it names one."""
        _, _, machine = self.word.partition("@")
        return f"the head on {machine}" if machine else "another head"


def word_of(chance: str, machine: str) -> str:
    """A term's word: what ``chance`` brought, and the machine's name as far as it can travel."""
    name = "".join(letter for letter in machine if letter.isprintable())[:LONGEST_MACHINE]
    return f"{chance}@{name}" if name else chance


def sealed(key: bytes, *, epoch: int, start: int, word: str) -> Term:
    """A term with the seal of a head's key."""
    text = f"fallow head {epoch} {start} {word}".encode()
    return Term(epoch=epoch, start=start, word=word, seal=hmac.new(key, text, "sha256").hexdigest())


def is_genuine(key: bytes, term: Term) -> bool:
    """Whether a head with this key made the term."""
    own = sealed(key, epoch=term.epoch, start=term.start, word=term.word)
    return hmac.compare_digest(own.seal, term.seal)


def superseded_by(own: Term, words: Mapping[int, str], term: Term, node: str) -> str | None:
    """Why a head of the term ``own`` isn't the one, as ``node`` has ``term`` another; ``None``: it may be.

    ``words`` are those of this store's starts, by their counts, of the same epoch.
    """
    if term.epoch < own.epoch:
        return None
    if term.epoch > own.epoch:
        at = datetime.fromtimestamp(term.epoch / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return (
            f"node {node} has heard {term.head}, which took over at {at}: "
            f"this one is not the head any more; {TAKE_OVER}"
        )
    if term.start > own.start:
        return (
            f"node {node} has heard {term.head} (start {term.start} of this store, "
            f"here it is {own.start}): this is a copy of the head's store, "
            f"or was restored from a back-up; {TAKE_OVER}"
        )
    seal = words.get(term.start)
    if seal is not None and seal != term.word:
        return (
            f"node {node} has heard {term.head}, which began on a copy of this store (start {term.start}); "
            f"{TAKE_OVER}"
        )
    return None


def is_older(answered: Term | None, term: Term) -> bool:
    """Whether who answers a node is certainly no newer head than it has heard: its answer deletes nothing."""
    if answered is None:
        return True
    if answered.epoch != term.epoch:
        return answered.epoch < term.epoch
    return answered.start < term.start or (answered.start == term.start and answered.word != term.word)
