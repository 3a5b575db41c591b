"""Telling owners by message: one more way beside their terminals, with the same port.

A message reaches nobody while it waits in the outbox, so this way never says that it reached somebody: that
is noted on the telling when the receiver's server has taken it (``AlertDesk.deliver``).
"""

from collections.abc import Callable

from advisor.actions import Action, Notify
from advisor.engines.external import KEEP_HINT
from advisor.engines.notify_owner import Notice, Notifier, Told
from advisor.outcomes import Done, Engine, Failed, Late, Outcome
from collector.model import JobId
from collector.store.errors import StoreError
from service.errors import ClientError

Send = Callable[[Notice, str | None], Told]
Whose = Callable[[JobId], str | None]
"""The user of a job that has a launcher; ``None`` for all others."""


class MessageNotifier:
    """``advisor.engines.notify_owner.Notifier``; tells nobody before it is joined to the alerts."""

    def __init__(self) -> None:
        self._send: Send | None = None

    def join(self, send: Send) -> None:
        """From now on, send by this."""
        self._send = send

    def notify(self, notice: Notice) -> Told:
        """Put the message on its way; ``missed`` says so, or why it could not be."""
        if self._send is None:
            return Told(missed=("message: the alerts have not begun yet",))
        try:
            return self._send(notice, notice.user)
        except (StoreError, ClientError, OSError) as error:
            return Told(missed=(f"message: {error}",))


class LaunchedToo:
    """An engine whose tellings of launched jobs go out as messages as well; it does what ``engine`` does.

    Foreign jobs are told by their own engine, which knows every way itself.
    """

    def __init__(self, engine: Engine, messages: Notifier, whose: Whose) -> None:
        self._engine, self._messages, self._whose = engine, messages, whose

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """Carry the step out; a telling that its launcher took, or may take, is sent as well."""
        outcome = self._engine.do(step, intent)
        user = self._whose(step.job) if isinstance(step, Notify) else None
        if isinstance(step, Notify) and user is not None and isinstance(outcome, Done | Failed | Late):
            hint = KEEP_HINT.format(job=step.job)
            self._messages.notify(Notice(job=step.job, user=user, uid=None, message=step.message, hint=hint))
        return outcome
