"""The token of a node: who may read its file, and what a node does where everybody may."""

import grp
import os
from pathlib import Path

import pytest

from service.cli import main
from service.node.token_file import TokenExposed, give, must_be_secret


def test_a_token_that_everybody_can_read_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token, config = tmp_path / "token", tmp_path / "node.toml"
    token.write_text("secret-word")
    token.chmod(0o644)
    config.write_text(
        f'[node]\nhead = "http://127.0.0.1:1"\ntoken = "${{file:{token}}}"\n'
        '[collect]\nsources = ["dcgm=http://127.0.0.1:1"]\n'
    )
    assert main(["node", "--data", str(tmp_path / "data"), "--config", str(config)]) == 2
    said = capsys.readouterr().err
    assert f"chmod o= {token}" in said and "mode 0644" in said
    assert "secret-word" not in said


def test_a_token_of_the_owner_and_a_group_is_used(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o640)
    must_be_secret(f"${{file:{token}}}")
    must_be_secret("${FALLOW_TOKEN}")
    must_be_secret(f"${{file:{tmp_path / 'not there yet'}}}")


def test_the_units_account_reads_it_and_nobody_else(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a file to another group needs root")
    token = tmp_path / "token"
    token.touch(mode=0o666)
    give(token, "daemon")
    found = token.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (0, grp.getgrnam("daemon").gr_gid, 0o640)
    link = tmp_path / "link"
    link.symlink_to(token)
    with pytest.raises(TokenExposed):
        give(link, "daemon")
