"""What uids are called: the same wherever somebody is written down, with an account or without."""

import os
import pwd

import pytest

from collector.procfs.accounts import account_name, name_of, nameless, uid_of

NOBODYS = 4_123_456
"""A uid that no account has."""


def test_a_uid_with_an_account_has_its_name_and_another_its_number() -> None:
    mine = pwd.getpwuid(os.getuid()).pw_name
    assert (name_of(os.getuid()), uid_of(mine)) == (mine, os.getuid())
    assert (account_name(NOBODYS), name_of(NOBODYS)) == (None, f"uid-{NOBODYS}")


@pytest.mark.parametrize("uid", [NOBODYS, 0, 2**32 - 2])
def test_a_number_that_stands_for_a_name_is_read_back(uid: int) -> None:
    assert uid_of(nameless(uid)) == uid


@pytest.mark.parametrize(
    "name", ["", "uid-", "uid--1", "uid-01", "uid-1 ", "uid-4294967295", "uid-٣", "uid:1", "no such", "a\0b"]
)
def test_what_names_nobody_is_nobodys(name: str) -> None:
    assert uid_of(name) is None
