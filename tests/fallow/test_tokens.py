"""The token that lets machines join is read where only its owner can, and workers never inherit it."""

import io
import os
import sys
from pathlib import Path

import pytest

from fallow import protocol
from fallow.workers.token import TokenMissing, make_token, token_of

pytestmark = pytest.mark.quick


def test_a_file_wins_over_the_environment_and_workers_inherit_neither(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("from the file\nmore\n")
    environment = {protocol.ENV_TOKEN: "from the environment"}
    assert token_of(str(file), environment) == "from the file"
    assert environment == {}
    environment = {protocol.ENV_TOKEN: "from the environment"}
    assert token_of(None, environment) == "from the environment"
    assert environment == {}


def test_it_can_come_over_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("typed\nand more\n"))
    assert token_of("-", {}) == "typed"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_may_read_or_write_is_refused(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("known to others")
    file.chmod(mode)
    with pytest.raises(TokenMissing, match="others may read or write"):
        token_of(str(file), {})


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of another account needs root")
def test_a_file_of_another_account_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    os.chown(file, 65_533, -1)
    with pytest.raises(TokenMissing, match="belongs to account 65533"):
        token_of(str(file), {})


@pytest.mark.parametrize("given", [None, "", "  \n"])
def test_no_token_is_said(given: str | None, tmp_path: Path) -> None:
    with pytest.raises(TokenMissing, match="give --token-file FILE"):
        token_of(None, {} if given is None else {protocol.ENV_TOKEN: given})
    with pytest.raises(TokenMissing, match="cannot be read"):
        token_of(str(tmp_path / "absent"), {})


def test_a_new_one_is_ours_alone_and_overwrites_nothing(tmp_path: Path) -> None:
    file, other = tmp_path / "token", tmp_path / "planted"
    token = make_token(file)
    assert len(token) >= 32
    assert file.stat().st_mode & 0o777 == 0o600
    assert token_of(str(file), {}) == token
    other.symlink_to(tmp_path / "elsewhere")
    for taken in (file, other):
        with pytest.raises(FileExistsError):
            make_token(taken)
    assert not (tmp_path / "elsewhere").exists()
