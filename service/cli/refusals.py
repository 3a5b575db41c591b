"""What the operating system may refuse to any verb, as one sentence: nothing of it is a fault in Fallow."""

import errno

_ROOM = "free some room, and run it again"
_ANOTHERS = "it belongs to another user: ask them for it, or name a folder of your own with --data"
_ADVICE = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.EACCES: _ANOTHERS,
    errno.EPERM: _ANOTHERS,
    errno.EROFS: "name a folder that may be written with --data",
    errno.ENAMETOOLONG: "give it a shorter name",
}


def in_words(error: OSError) -> str | None:
    """What was refused and what to do; ``None`` for an error that nobody but us can mend."""
    advice = _ADVICE.get(error.errno or 0)
    if advice is None:
        return None
    where = "the output" if error.filename is None else str(error.filename)
    return f"{where}: {error.strerror}; {advice}"
