"""By which names a server may be reached from a browser: this machine's, and addresses in digits."""

import pytest

from service.trust.hosts import LOOPBACK, host_name, is_known, is_loopback, is_own_page

NAMES = LOOPBACK | {"gpu01"}


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:9476", "127.0.0.1:9476", "[::1]:9476", "gpu01", "gpu01.:80", "10.1.2.3", "[::]"],
)  # fmt: skip
def test_names_of_this_machine_and_addresses_are_known(host: str) -> None:
    assert is_known(host, NAMES)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:9476", "localhost.evil.example", "127.0.0.1.evil.example", "[evil]",
     "a@localhost", "localhost/x", "localhost:x", "2130706433.evil", "localhost#", " "],
)  # fmt: skip
def test_other_names_are_not(host: str) -> None:
    assert not is_known(host, NAMES)


def test_a_page_may_talk_to_the_server_that_sent_it_and_to_no_other() -> None:
    assert is_own_page("http://127.0.0.1:9476", "127.0.0.1:9476")
    assert is_own_page("https://GPUS.example.org", "gpus.example.org")
    assert not is_own_page("http://127.0.0.1:8888", "127.0.0.1:9476"), "another server of this machine"
    assert not is_own_page("http://evil.example", "127.0.0.1:9476")
    assert not is_own_page("null", "127.0.0.1:9476")
    assert not is_own_page("", "")
    assert is_own_page("https://gpus.example.org", "127.0.0.1:9476", {"gpus.example.org"}), "a listed proxy"


def test_what_is_no_host_has_no_name() -> None:
    assert host_name("gpus.example.org") == "gpus.example.org"
    assert host_name("https://gpus.example.org") is None
    assert host_name("gpus.example.org/x") is None


def test_only_loopback_is_reached_from_this_machine_alone() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.0.0.2", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "gpu01", "")))
