"""Tokens beside DATA/token: kept as hashes for their owner alone, ended by time or by hand, at once."""

import json
import stat
import threading
from pathlib import Path

import pytest

from service.api import tokens
from service.api.tokens import DAY_MS, Tokens, TokenTrouble
from service.client.jobs import connect_acting
from service.control.interface import Role
from service.data_folder import tokens_file
from service.errors import NotAllowed
from tests.service.conftest import Running, verb

NOW_MS = 1_795_000_000_000


def made(data: Path, user: str = "alice", role: Role = Role.USER) -> tuple[tokens.Token, str]:
    return tokens.add(data, user=user, role=role, span_ms=DAY_MS, now_ms=NOW_MS)


def test_secret_is_kept_nowhere_and_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    _, secret = made(tmp_path)
    assert secret not in tokens_file(tmp_path).read_text()
    assert stat.S_IMODE(tokens_file(tmp_path).stat().st_mode) == 0o600


def test_token_is_known_until_it_is_revoked(tmp_path: Path) -> None:
    known = Tokens(tmp_path)
    token, secret = made(tmp_path)
    _, other = made(tmp_path, user="bob")
    assert known.named(secret) == token
    tokens.revoke(tmp_path, token.id)
    assert known.named(secret) is None
    assert known.named(other) is not None
    assert known.named(secret[:-1]) is None


def test_token_ends_at_its_last_moment(tmp_path: Path) -> None:
    token, _ = made(tmp_path)
    assert not token.has_expired(NOW_MS + DAY_MS - 1)
    assert token.has_expired(NOW_MS + DAY_MS)


def test_tokens_made_at_once_are_all_kept(tmp_path: Path) -> None:
    crowd = [threading.Thread(target=made, args=(tmp_path, f"user{n}")) for n in range(16)]
    for each in crowd:
        each.start()
    for each in crowd:
        each.join()
    assert {token.user for token in tokens.kept(tmp_path)} == {f"user{n}" for n in range(16)}


@pytest.mark.parametrize("name", ["", "-rf", "a b", "../root", "a\nb", "a\u202eb", "x" * 66, "$(id)"])
def test_name_that_no_user_has_gets_no_token(tmp_path: Path, name: str) -> None:
    with pytest.raises(TokenTrouble, match="no name of a user"):
        made(tmp_path, user=name)


def test_damaged_file_opens_no_door(tmp_path: Path) -> None:
    _, secret = made(tmp_path)
    tokens_file(tmp_path).write_text('[{"user": "alice"}]')
    with pytest.raises(TokenTrouble, match="damaged"):
        Tokens(tmp_path).named(secret)


def test_verb_makes_lists_and_revokes(tmp_path: Path) -> None:
    given = verb("token", "add", "--user", "alice", "--role", "viewer", "--expires", "7d", data=tmp_path)
    assert (given.returncode, given.stdout.startswith("fallow-")) == (0, True)
    assert "shown this once" in given.stderr
    (row,) = json.loads(verb("token", "list", "--json", data=tmp_path).stdout)
    assert (row["user"], row["role"], row["expires_ms"] - row["made_ms"]) == ("alice", "viewer", 7 * DAY_MS)
    assert "alice" in verb("token", "list", data=tmp_path).stdout
    assert verb("token", "revoke", "alice", data=tmp_path).returncode == 0
    assert json.loads(verb("token", "list", "--json", data=tmp_path).stdout) == []
    again = verb("token", "revoke", "alice", data=tmp_path)
    assert (again.returncode, "fallow token list" in again.stderr) == (2, True)


def test_an_empty_token_is_nobody_not_the_owner(service: Running) -> None:
    """A form that was left empty must not act with the operator's token that lies in DATA."""
    with pytest.raises(NotAllowed):
        connect_acting(service.data, token="").whoami()
