"""Why an order is not carried out; every message says what to do instead.

ActingError
├── NotAllowed    somebody else's job, or a role that may not (403)
├── UnknownJob    no job, plan or action of that name (404)
├── WrongState    it stands where this cannot be done (409)
│   └── JobEnded  it has ended: nothing more will come of it (410)
├── BadOrder      the order makes no sense here: too many GPUs, an unknown signal (422)
└── OverLimit     one person has as much as one may have; asked again later, it may be done (429)
"""

from service.errors import FallowError


class ActingError(FallowError):
    """An order that is not carried out."""


class NotAllowed(ActingError):
    """The caller may not do this."""


class UnknownJob(ActingError):
    """There is no such job, plan or action."""


class WrongState(ActingError):
    """It stands where this cannot be done."""


class JobEnded(WrongState):
    """The job has ended."""


class BadOrder(ActingError):
    """The order makes no sense here."""


class OverLimit(ActingError):
    """One person asks for more than one may have; the message names the bound."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
