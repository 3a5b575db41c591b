"""Whose a file is and who else could have put it there: walked as the kernel walks, with real owners."""

import os
import pwd
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.file_trust import ACCESS_LIST, Distrust, distrust, distrust_inside, distrust_way, read_trusted
from tests.collector.procfs.observers import public_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other accounts")

ANN, EVE = 54_321, 54_322
TRUSTED = frozenset({0, ANN})


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder of root's that everybody may enter, in a sticky one."""
    with public_folder() as folder:
        yield folder


def folder(path: Path, uid: int = ANN, mode: int = 0o755) -> Path:
    path.mkdir()
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


def file(path: Path, uid: int = ANN, mode: int = 0o644, text: str = "text") -> Path:
    path.write_text(text)
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


def link(path: Path, to: Path | str, uid: int = ANN) -> Path:
    path.symlink_to(to)
    os.lchown(path, uid, uid)
    return path


def said(fault: Distrust | None) -> str:
    assert fault is not None
    return str(fault)


@pytest.mark.parametrize("uid", sorted(TRUSTED))
def test_what_belongs_to_whom_is_trusted_is_believed(top: Path, uid: int) -> None:
    inner = folder(top / "a", uid)
    assert distrust(inner, TRUSTED) is None
    assert distrust(file(inner / "f", uid), TRUSTED) is None
    assert read_trusted(inner / "f", TRUSTED) == b"text"
    assert distrust_inside(inner, TRUSTED) is None
    assert distrust(Path("/dev/null"), TRUSTED) is None


def test_somebody_elses_is_not_wherever_it_stands_on_the_way(top: Path) -> None:
    theirs = folder(top / "eve", EVE)
    assert said(distrust(theirs, TRUSTED)) == f"the folder {theirs} belongs to uid-{EVE}"
    within = folder(theirs / "ann")
    for each in (within, within / "not there"):
        fault = distrust(each, TRUSTED)
        assert fault is not None and (fault.place, fault.on_the_way) == (theirs, True)
        assert fault.remedy("ann") is None
    own = folder(top / "ann")
    fault = distrust(file(own / "f", EVE), TRUSTED)
    assert fault is not None and fault.remedy("ann") == f"chown ann {own}/f"
    assert read_trusted(own / "f", TRUSTED) == fault


def test_what_is_not_there_is_no_matter_of_trust(top: Path) -> None:
    with pytest.raises(FileNotFoundError):
        distrust(top / "nothing", TRUSTED)
    with pytest.raises(NotADirectoryError):
        distrust(file(top / "f") / "x", TRUSTED)
    with pytest.raises(IsADirectoryError):
        read_trusted(top, TRUSTED)


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (0o757, "can be written by everybody (mode 0757)"),
        (0o775, f"can be written by the group {ANN} (mode 0775)"),
        (0o1777, "can be written by everybody (mode 1777)"),
    ],
)
def test_a_folder_that_others_may_write_is_not_believed(top: Path, mode: int, says: str) -> None:
    open_one = folder(top / "open", ANN, mode)
    assert says in said(distrust(open_one, TRUSTED))
    below = distrust(folder(open_one / "below"), TRUSTED)
    sticky = bool(mode & 0o1000)
    assert (below is None) is sticky, "a sticky one may be on the way"
    assert (distrust_way(open_one / "socket", TRUSTED) is None) is sticky


def test_below_a_folder_that_only_its_owner_enters_modes_do_not_matter(top: Path) -> None:
    home = folder(top / "home", ANN, 0o700)
    inner = folder(home / "state", ANN, 0o777)
    file(inner / "f", ANN, 0o666)
    assert distrust(inner / "f", TRUSTED) is None
    assert distrust_inside(inner, TRUSTED) is None
    file(inner / "theirs", EVE)
    assert "belongs to" in said(distrust(inner / "theirs", TRUSTED))
    assert "belongs to" in said(distrust_inside(inner, TRUSTED))
    link(home / "out", top / "open")
    folder(top / "open", ANN, 0o777)
    assert "everybody" in said(distrust(home / "out", TRUSTED)), "a link leads out of it"
    assert "everybody" in said(distrust(home / ".." / "open", TRUSTED))


def test_a_private_group_is_its_owner_and_an_access_list_is_not(top: Path) -> None:
    one = pwd.getpwnam("daemon")
    trusted = TRUSTED | {one.pw_uid}
    own = folder(top / "own", ANN, 0o775)
    os.chown(own, one.pw_uid, one.pw_gid)
    assert distrust(own, trusted) is None
    os.chown(own, one.pw_uid, pwd.getpwnam("bin").pw_gid)
    assert "the group bin" in said(distrust(own, trusted))
    os.chown(own, one.pw_uid, one.pw_gid)
    entries = [(1, 7, -1), (2, 7, EVE), (4, 7, -1), (16, 7, -1), (32, 5, -1)]
    packed = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, perm, who & 0xFFFFFFFF) for tag, perm, who in entries
    )
    try:
        os.setxattr(own, ACCESS_LIST, packed)
    except OSError as error:
        pytest.skip(f"no access lists on this file system: {error}")
    assert "the group daemon" in said(distrust(own, trusted))


def test_links_are_followed_and_are_somebodys_too(top: Path) -> None:
    own, theirs = folder(top / "ann"), folder(top / "eve", EVE)
    file(own / "f")
    assert read_trusted(link(top / "l", "ann/f"), TRUSTED) == b"text"
    assert read_trusted(link(top / "twice", "l"), TRUSTED) == b"text"
    assert said(distrust(link(top / "bad", own, EVE), TRUSTED)).startswith(f"the link {top}/bad belongs")
    assert said(distrust(link(top / "to", theirs), TRUSTED)) == f"the folder {theirs} belongs to uid-{EVE}"
    link(top / "round", "round")
    with pytest.raises(OSError, match="Too many levels"):
        distrust(top / "round", TRUSTED)


def test_what_lies_in_a_folder_is_looked_at_but_for_who_answers_at_a_socket(top: Path) -> None:
    import socket

    own = folder(top / "ann")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(own / "s"))
        (own / "s").chmod(0o666)
        assert distrust_inside(own, TRUSTED) is None
        link(own / "dead", "nowhere")
        assert distrust_inside(own, TRUSTED) is None
        os.chown(own / "s", EVE, EVE)
        assert f"the socket {own}/s belongs" in said(distrust_inside(own, TRUSTED))
    (own / "s").unlink()
    link(own / "leads", folder(top / "eve", EVE))
    assert f"the folder {top}/eve belongs" in said(distrust_inside(own, TRUSTED))


def test_a_name_that_is_exchanged_meanwhile_never_brings_what_was_not_examined(top: Path) -> None:
    open_one = folder(top / "open", ANN, 0o777)
    own, theirs = file(top / "own"), file(top / "theirs", EVE, text="pwned")
    name, ended = open_one / "f", threading.Event()
    link(name, own)

    def exchange() -> None:
        while not ended.is_set():
            for to, uid in ((theirs, EVE), (own, ANN)):
                link(open_one / "new", to, uid)
                (open_one / "new").replace(name)

    other = threading.Thread(target=exchange)
    other.start()
    try:
        trusted = TRUSTED
        open_one.chmod(0o1777)
        found = [read_trusted(name, trusted) for _ in range(300)]
    finally:
        ended.set()
        other.join()
    assert all(each == b"text" or isinstance(each, Distrust) for each in found)
