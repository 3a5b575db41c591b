"""The one root of every expected failure behind the doors: its message is for people, and is enough."""


class FallowError(Exception):
    """Something a person can mend; the message says what was attempted, what was found and what to do."""
