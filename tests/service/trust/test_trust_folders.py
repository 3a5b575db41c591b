"""A DATA folder, its configuration and its templates are read only where nobody else could have put them."""

import os
from pathlib import Path

import pytest

from service import data_folder
from service.errors import Untrusted
from service.trust.believed import SYSTEM_FILE, System, system, trusted_uids
from tests.service.trust.accounts import ANN, EVE, NAMES, SERVICE, as_account, needs_root, owned, typed

pytestmark = needs_root

PWNED = "{{ cycler.__init__.__globals__.os.popen('touch ' ~ '%s').read() }}"


def planted(there: Path, uid: int = EVE) -> Path:
    """A folder of somebody's with a ``.fallow`` in it: settings, a template, a service, a store."""
    here = owned(there / "shared", uid)
    data = owned(here / ".fallow", uid)
    owned(data / "fallow.toml", uid, 0o644, "[api]\nhost = '0.0.0.0'\n")
    owned(data / "fallow.duckdb", uid, 0o644, "no store")
    owned(data / "templates", uid)
    owned(data / "templates" / "report.md.j2", uid, 0o644, PWNED % (there / "pwned"))
    return here


@pytest.mark.parametrize("uid", [ANN, 0])
@pytest.mark.parametrize(
    "words", [("status",), ("report", "cluster-week", "--preview"), ("run", "--", "true")]
)
def test_what_lies_in_the_folder_that_somebody_stands_in_is_not_read(
    there: Path, words: tuple[str, ...], uid: int
) -> None:
    status, said = typed(*words, here=planted(there), there=there, uid=uid)
    assert status == 2
    assert str(there / "home" / NAMES[uid] / ".local" / "state" / "fallow") in said
    assert "shared" not in said, "it is not even offered to be moved"


@pytest.mark.parametrize("uid", [ANN, 0])
def test_a_named_folder_of_somebody_else_is_refused_with_their_name(there: Path, uid: int) -> None:
    data = planted(there) / ".fallow"
    by_flag = typed("config", "--data", str(data), here=there, there=there, uid=uid)
    by_variable = typed("config", here=there, there=there, uid=uid, FALLOW_DATA=str(data))
    assert by_flag == by_variable
    status, said = by_flag
    assert status == 2
    believed = "ann or root" if uid else "root"
    assert said == (
        f"fallow: {data} is not used: the folder {there}/shared belongs to eve, and only what "
        f"belongs to {believed} is believed: use one of your own, or name another folder with --data\n"
    )


def test_a_folder_or_a_file_that_others_may_write_is_refused_with_the_command_that_closes_it(
    there: Path,
) -> None:
    data = owned(there / "data", ANN, 0o777)
    _, said = typed("config", "--data", str(data), here=there, there=there, uid=ANN)
    assert "can be written by everybody (mode 0777)" in said and f"`chmod go-w {data}`" in said
    data.chmod(0o755)
    owned(data / "fallow.toml", ANN, 0o666, "")
    _, said = typed("config", "--data", str(data), here=there, there=there, uid=ANN)
    assert f"the file {data}/fallow.toml can be written by everybody" in said
    data.chmod(0o700)
    assert typed("config", "--data", str(data), here=there, there=there, uid=ANN)[0] == 0, "nobody gets there"


def test_a_configuration_of_somebody_else_is_refused(there: Path) -> None:
    theirs = owned(there / "eve.toml", EVE, 0o644, "")
    status, said = typed("config", "--config", str(theirs), here=there, there=there, uid=ANN)
    assert status == 2 and f"{theirs} is not read: the file {theirs} belongs to eve" in said
    assert "have root run `chown ann" in said


def test_templates_of_somebody_else_are_refused_and_those_of_ones_own_are_read(there: Path) -> None:
    from service.reports.sandbox import environment

    def rendered(folder: Path) -> str:
        try:
            return environment(folder, folder, html=False).get_template("x.j2").render(n=6)
        except Untrusted as error:
            return str(error)

    for uid in (EVE, ANN):
        owned(there / NAMES[uid], uid)
        owned(there / NAMES[uid] / "x.j2", uid, 0o644, "{{ n * 7 }}")
    assert as_account(ANN, lambda: rendered(there / "ann"), there) == "42"
    assert "belongs to eve" in as_account(ANN, lambda: rendered(there / "eve"), there)


def test_an_old_store_of_ones_own_is_offered_to_be_moved(there: Path) -> None:
    here = planted(there, ANN)
    (here / ".fallow" / "fallow.toml").unlink()
    status, said = typed("config", here=here, there=there, uid=ANN)
    home = there / "home" / "ann"
    assert status == 0
    first = said.splitlines()[0]
    assert first == (
        f"fallow: {here}/.fallow is not read, because {home}/.local/state/fallow is used wherever you stand: "
        f"`mkdir -p {home}/.local/state && mv {here}/.fallow {home}/.local/state/fallow` moves it; "
        f"`export FALLOW_DATA={here}/.fallow` uses it where it lies"
    )
    os.system(first.split("`")[1])
    assert (home / ".local" / "state" / "fallow" / "fallow.duckdb").exists()
    _, said = typed("config", here=here, there=there, uid=ANN)
    assert "is not read" not in said


def test_the_default_is_the_users_own_and_never_a_relative_one(there: Path) -> None:
    def default(**variables: str) -> str:
        os.environ.pop("XDG_STATE_HOME", None)
        os.environ |= variables
        return str(data_folder.default_data())

    def ask(**variables: str) -> str:
        return as_account(ANN, lambda: default(**variables), there)

    assert ask(HOME="/h") == "/h/.local/state/fallow"
    assert ask(HOME="/h", XDG_STATE_HOME="/state") == "/state/fallow"
    assert ask(HOME="/h", XDG_STATE_HOME=".state") == "/h/.local/state/fallow"
    with pytest.raises(data_folder.Nowhere, match="no absolute path"):
        ask(HOME=".")


def test_root_names_the_account_and_the_folder_that_everybody_believes(there: Path) -> None:
    data = owned(there / "var", SERVICE)
    owned(data / "fallow.toml", SERVICE, 0o644, "")
    assert typed("config", "--data", str(data), here=there, there=there, uid=ANN)[0] == 2
    text = f"[system]\naccount = 'fallow'\ndata = '{data}'\n[collect]\ntick_s = 5\n"
    owned(there / "etc" / "fallow" / "fallow.toml", 0, 0o644, text)
    assert typed("config", "--data", str(data), here=there, there=there, uid=ANN)[0] == 0
    assert as_account(ANN, system, there) == System(account="fallow", data=data)
    assert as_account(ANN, trusted_uids, there) == {ANN, 0, SERVICE}
    assert as_account(ANN, data_folder.data_dir, there) == data
    status, said = typed("config", "--config", str(SYSTEM_FILE), here=there, there=there, uid=ANN)
    assert status == 0 and "fallow.toml:5" in said, "it may be the whole configuration"


def test_who_may_not_read_the_machines_folder_has_an_own(there: Path) -> None:
    data = owned(there / "var", SERVICE, 0o750)
    owned(data / "fallow.toml", SERVICE, 0o640, "")
    text = f"[system]\naccount = 'fallow'\ndata = '{data}'\n"
    owned(there / "etc" / "fallow" / "fallow.toml", 0, 0o644, text)
    assert as_account(SERVICE, data_folder.default_data, there) == data
    assert as_account(0, data_folder.default_data, there) == data
    status, said = typed("config", here=there, there=there, uid=ANN)
    assert status == 0, said


def test_what_root_says_counts_only_while_it_is_roots(there: Path) -> None:
    file = owned(there / "etc" / "fallow" / "fallow.toml", EVE, 0o644, "[system]\naccount = 'eve'\n")
    status, said = typed("config", here=there, there=there, uid=ANN)
    assert status == 2
    assert said.startswith(
        f"fallow: {SYSTEM_FILE} says which account is believed, so nobody but root may write it"
    )
    assert f"as root: `chown root {SYSTEM_FILE}`" in said
    os.chown(file, 0, 0)
    file.write_text("[system]\naccount = 7\n")
    assert "system.account is text in quotes, not 7" in typed("config", here=there, there=there, uid=ANN)[1]


def test_the_word_on_the_whole_machine_counts_nowhere_else(there: Path) -> None:
    data = owned(there / "data", ANN)
    owned(data / "fallow.toml", ANN, 0o644, "[system]\naccount = 'eve'\n")
    status, said = typed("config", "--data", str(data), here=there, there=there, uid=ANN)
    assert status == 2 and f"counts in {SYSTEM_FILE} alone" in said


def test_a_folder_that_somebody_else_made_first_is_not_served_from(there: Path) -> None:
    from service.server.startup import make_data_dir

    sticky = owned(there / "sticky", 0, 0o1777)
    data = owned(sticky / "data", EVE, 0o777)
    with pytest.raises(Untrusted, match="belongs to eve"):
        as_account(ANN, lambda: make_data_dir(data), there)
    as_account(ANN, lambda: make_data_dir(sticky / "own"), there)
    assert (sticky / "own").stat().st_uid == ANN


def test_no_socket_is_made_in_somebody_elses_folder(there: Path) -> None:
    from service.server.startup import ServiceRefused
    from service.server.unix_socket import open_local

    def opened(path: Path) -> str:
        door, _ = open_local(str(path), there, {})
        assert door is not None
        door.close()
        return "open"

    theirs = owned(there / "eve", EVE, 0o777)
    with pytest.raises(ServiceRefused, match=r"belongs to eve.*choose another with api\.socket"):
        as_account(ANN, lambda: opened(theirs / "s"), there)
    sticky = owned(there / "sticky", 0, 0o1777)
    assert as_account(ANN, lambda: opened(sticky / "s"), there) == "open"


def test_a_job_meets_its_launcher_where_nobody_can_take_its_place(there: Path) -> None:
    from service.launcher.folder import meeting

    def met(place: Path) -> Path:
        os.environ["TMPDIR"] = str(place)
        made = meeting(detached=False)
        made.remove()
        return made.path.parent

    safe, unsafe = owned(there / "safe", 0, 0o1777), owned(there / "unsafe", 0, 0o777)
    assert as_account(ANN, lambda: met(safe), there) == safe
    assert as_account(ANN, lambda: met(unsafe), there) == Path("/tmp")
