"""What can go wrong between a reader and the service; every message says what to do next.

ClientError
├── ServiceDown     nothing answers, or the answer is not ours
├── ServiceOlder    a Fallow service answers that has no such route yet
├── Untrusted       a folder, a file or a service belongs to somebody who isn't believed
├── NotAllowed      the token is missing or wrong
│   └── Forbidden   somebody else's job, or a role that may not
├── UnknownQuery    no query of that name
├── BadParameter    a parameter is missing, unknown or unreadable
├── NoData          there is no store yet
├── StoreUnusable   the file is there and cannot be opened
├── StoreOlder      an older Fallow wrote the store; this question has no table there yet
├── QueryTooSlow    it ran past its limit and was stopped
├── ServiceBusy     too many queries wait already
│   └── OverLimit   one person asks for more than one may have
├── ImportFailed    an import cannot begin, or broke off
├── UnknownJob      no job, plan or action of that name
├── WrongState      it stands where this cannot be done
│   └── JobEnded    it has ended
├── BadOrder        the order makes no sense here
├── CannotReport    a report cannot be made, written or read as it was asked for
└── QueryFailed     the service met an error of its own

The one root of every expected failure behind the doors: its message is for people, and is enough.
"""

from service.printable import in_lines


class FallowError(Exception):
    """Something a person can mend; the message says what was attempted, what was found and what to do."""


class ClientError(FallowError):
    """A question that could not be answered."""


class ServiceDown(ClientError):
    """Nothing answers at the service's address, or the answer is not a Fallow service's."""


class ServiceOlder(ClientError):
    """An older Fallow service answers, which has no such route."""


class Untrusted(ClientError):
    """A folder, a file or a service is somebody's who isn't believed, or others could have changed it."""


class NotAllowed(ClientError):
    """The token is missing, unreadable or wrong."""


class Forbidden(NotAllowed):
    """It is known who asks, and they may not do this."""


class UnknownQuery(ClientError):
    """There is no named query of that name."""


class BadParameter(ClientError):
    """A parameter is missing, unknown or cannot be read."""


class NoData(ClientError):
    """There is no store to read yet."""


class StoreUnusable(ClientError):
    """The store's file is there and cannot be opened."""


class StoreOlder(ClientError):
    """The store has no such table yet: an older Fallow wrote it, and reading does not migrate it."""


class QueryTooSlow(ClientError):
    """The query ran past its limit and was stopped."""


class ServiceBusy(ClientError):
    """Too many queries wait already; the same question may be asked again after ``retry_after_s``."""

    retry_after_s: float = 1.0


class OverLimit(ServiceBusy):
    """One person asks for more than one may have; the message names the bound and when to ask again."""


class ImportFailed(ClientError):
    """An import cannot begin, or broke off; what was stored stays."""


class UnknownJob(ClientError):
    """There is no job, plan or action of that name."""


class WrongState(ClientError):
    """What was named stands where this cannot be done."""


class JobEnded(WrongState):
    """The job has ended: nothing more will come of it."""


class BadOrder(ClientError):
    """The order makes no sense here."""


class CannotReport(ClientError):
    """A report cannot be made, written or read as it was asked for."""


class QueryFailed(ClientError):
    """The service met an error of its own."""


KINDS: tuple[tuple[str, type[ClientError]], ...] = (
    ("forbidden", Forbidden),
    ("not-allowed", NotAllowed),
    ("unknown-query", UnknownQuery),
    ("bad-parameter", BadParameter),
    ("no-data", NoData),
    ("too-slow", QueryTooSlow),
    ("over-limit", OverLimit),
    ("busy", ServiceBusy),
    ("import-refused", ImportFailed),
    ("unknown-job", UnknownJob),
    ("job-ended", JobEnded),
    ("wrong-state", WrongState),
    ("bad-order", BadOrder),
    ("failed", QueryFailed),
)
"""The names of the errors on the wire; a special case stands before what it is a case of."""


def by_kind(kind: str, message: str) -> ClientError:
    """The exception for an error that came over the wire; nothing in its message steers a terminal."""
    shown = in_lines(message)
    return next((error(shown) for name, error in KINDS if name == kind), QueryFailed(shown))
