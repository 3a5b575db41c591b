"""What can be wrong with a recording, as failures with a next step.

RecordingError
├── RecordingUnreadable   the file is missing, or is not what its name says
├── BadMapping            the mapping names what is not there, or is malformed itself
└── RecordingUseless      it could be read, but hardly any row of it made sense
"""


class RecordingError(Exception):
    """A recording that cannot be replayed; the message says why and what to do."""


class RecordingUnreadable(RecordingError):
    """The file is missing, or is not what its name says."""


class BadMapping(RecordingError):
    """The mapping names what is not there, or is malformed itself."""


class RecordingUseless(RecordingError):
    """It could be read, but hardly any row of it made sense."""
