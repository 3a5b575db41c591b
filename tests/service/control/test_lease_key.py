"""The key of the service's proofs: made once, nobody else's to read, and never one that was put there."""

import os
import stat
from pathlib import Path

import pytest

from service.control.lease_key import NAME, KeyRefused, lease_key


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_once_and_its_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        key = lease_key(tmp_path)
    finally:
        os.umask(old)
    assert (len(key), lease_key(tmp_path), mode(tmp_path / NAME)) == (32, key, 0o600)
    assert [each.name for each in tmp_path.iterdir()] == [NAME], "no draft is left"
    other = tmp_path / "other"
    other.mkdir()
    assert lease_key(other) != key


def test_one_that_a_backup_left_open_is_shut_again(tmp_path: Path) -> None:
    key = lease_key(tmp_path)
    (tmp_path / NAME).chmod(0o644)
    assert lease_key(tmp_path) == key and mode(tmp_path / NAME) == 0o600


@pytest.mark.parametrize("text", ["", "zz" * 32, "ab" * 31, "ä"])
def test_what_is_no_key_is_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(KeyRefused, match="remove it"):
        lease_key(tmp_path)


def test_a_link_and_a_folder_are_no_key(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_text("ab" * 32)
    (tmp_path / NAME).symlink_to(real)
    with pytest.raises(KeyRefused):
        lease_key(tmp_path)
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    with pytest.raises(KeyRefused):
        lease_key(tmp_path)


def test_a_key_that_somebody_else_gave_is_no_secret(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    lease_key(tmp_path)
    os.chown(tmp_path / NAME, 4001, 4001)
    with pytest.raises(KeyRefused, match="uid 4001"):
        lease_key(tmp_path)
