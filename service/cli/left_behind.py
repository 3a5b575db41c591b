"""The store of a time when DATA was ``.fallow`` of wherever one stood: what to do with it, in a sentence.

It isn't read any more, because anybody could have prepared the folder that somebody stands in.
"""

import argparse
import os
from pathlib import Path
from shlex import quote

from service import data_folder as client_place
from service.errors import ClientError
from service.trust.believed import is_mine

FORMER = ".fallow"
NAMED_BY = (client_place.DATA_VARIABLE, client_place.SOCKET_VARIABLE, client_place.URL_VARIABLE)


def remark(flags: argparse.Namespace) -> str | None:
    """What to say of a store in the folder that this was typed in; ``None`` where another one is named.

    What isn't surely this user's own is not offered to them.
    """
    if getattr(flags, "data", None) is not None or any(map(os.environ.get, NAMED_BY)):
        return None
    try:
        former = Path.cwd() / FORMER
        if not client_place.store_file(former).exists():
            return None
        data = client_place.default_data()
        if (data.exists() and former.samefile(data)) or not is_mine(former):
            return None
    except (OSError, ClientError):
        return None
    keep = f"`export FALLOW_DATA={quote(str(former))}` uses it where it lies"
    if client_place.store_file(data).exists() or client_place.announcement_file(former).exists():
        return f"{former} is not read, because {data} is used wherever you stand: {keep}"
    return f"{former} is not read, because {data} is used wherever you stand: {_moved(former, data)}; {keep}"


def _moved(former: Path, data: Path) -> str:
    """The command that moves it; where a launcher has made the new one already, what is in it."""
    if data.exists():
        return f"`mv {quote(str(former))}/* {quote(str(data))}/` moves it"
    return f"`mkdir -p {quote(str(data.parent))} && mv {quote(str(former))} {quote(str(data))}` moves it"
