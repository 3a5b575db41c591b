"""Only this job's words count, whatever else lies in a store that anybody can write to."""

import os
import pickle
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")
import torch.distributed as dist  # noqa: E402

from fallow import protocol  # noqa: E402
from fallow.errors import Mistake  # noqa: E402
from fallow.process_group.address_store import Meeting, local_copy  # noqa: E402
from fallow.sealed_store import SealedStore  # noqa: E402
from fallow.secret import KEY_BYTES, MAC_BYTES, Secret, inherited  # noqa: E402

pytestmark = pytest.mark.quick
OURS = Secret(bytes(range(KEY_BYTES)))
SHORT = timedelta(milliseconds=50)
LONG = timedelta(seconds=20)


@pytest.fixture
def raw() -> Iterator["dist.TCPStore"]:
    yield dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=LONG)


def sealed(raw: "dist.TCPStore", secret: Secret = OURS) -> tuple[SealedStore, list[str]]:
    told = list[str]()
    return SealedStore(raw, secret, told.append), told


@given(st.binary(max_size=300), st.text(max_size=20), st.integers(0, (1 << 64) - 1))
def test_what_is_sealed_is_opened_under_its_key_and_by_its_secret_alone(
    value: bytes, name: str, sequence: int
) -> None:
    word = OURS.seal(name, sequence, value)
    opened = OURS.open(name, word)
    assert opened is not None
    assert (opened.value, opened.sequence) == (value, sequence)
    assert OURS.open(f"{name}.", word) is None
    assert Secret.new().open(name, word) is None
    assert len(value) < 8 or value not in word, "and hidden"


@given(st.integers(0, 1 << 30), st.integers(1, 255))
def test_a_value_of_which_any_byte_was_changed_counts_for_nothing(place: int, change: int) -> None:
    word = bytearray(OURS.seal("plan/1", 7, b"a value"))
    word[place % len(word)] ^= change
    assert OURS.open("plan/1", bytes(word)) is None


@given(st.binary(max_size=2 * MAC_BYTES + 30))
def test_noise_counts_for_nothing(noise: bytes) -> None:
    assert OURS.open("plan/1", noise) is None


def test_a_secret_is_not_shown_and_has_its_length() -> None:
    assert OURS.key.hex() not in repr(OURS)
    with pytest.raises(ValueError, match="32 bytes, not 3"):
        Secret(b"abc")


def test_values_come_back_and_what_is_not_there_is_none_at_once(raw: "dist.TCPStore") -> None:
    store, told = sealed(raw)
    store.set("text", "words")
    store.set("bytes", b"\x00\xff")
    store.set("empty", "")
    assert [store.get(key) for key in ("text", "bytes", "empty")] == [b"words", b"\x00\xff", b""]
    began_s = time.monotonic()
    assert store.get("nothing") is None
    assert not store.has("nothing")
    assert time.monotonic() - began_s < LONG.total_seconds(), "the store itself would wait for it"
    assert store.wait("nothing", SHORT) is None
    assert raw.list_keys() and "nothing" not in raw.list_keys()
    assert told == []


@pytest.mark.parametrize("forged", [b"commit", b"", b"\x00absent", b"\x01" * 200, pickle.dumps(os.getcwd)])
def test_a_strangers_value_is_not_there_and_is_told_of_once(raw: "dist.TCPStore", forged: bytes) -> None:
    store, told = sealed(raw)
    raw.set("decision/7", forged)
    for _ in range(3):
        assert store.get("decision/7") is None
        assert store.wait("decision/7", SHORT) is None
    if forged != b"\x00absent":
        (sentence,) = told
        assert sentence.startswith(
            "a value of key 'decision/7' in the store doesn't come from this job; another"
        )
    store.set("decision/7", "cancel")
    assert store.get("decision/7") == b"cancel", "what this job says later counts"


def test_a_value_of_another_job_or_another_key_is_not_there(raw: "dist.TCPStore") -> None:
    store, told = sealed(raw)
    other, _ = sealed(raw, Secret.new())
    other.set("decision/7", "commit")
    store.set("decision/6", "commit")
    raw.set("decision/8", raw.get("decision/6"))
    assert store.get("decision/7") is None
    assert store.get("decision/8") is None
    assert len(told) == 2


def test_an_old_value_put_back_is_not_there(raw: "dist.TCPStore") -> None:
    store, told = sealed(raw)
    store.set("pulse/w0", "1")
    old = raw.get("pulse/w0")
    assert store.get("pulse/w0") == b"1"
    store.set("pulse/w0", "2")
    assert store.get("pulse/w0") == b"2"
    raw.set("pulse/w0", old)
    assert store.get("pulse/w0") is None
    assert "is an old one of this job's, put back" in told[0]
    store.set("pulse/w0", "3")
    assert store.get("pulse/w0") == b"3"


def test_a_key_is_claimed_by_one_and_whatever_a_stranger_left_there_gives_way(raw: "dist.TCPStore") -> None:
    raw.set("offer/1", b"\xff\x00 whatever")
    stores = [sealed(raw)[0] for _ in range(8)]
    got = list[bool]()
    together = threading.Barrier(len(stores))

    def claim(number: int) -> None:
        together.wait()
        got.append(stores[number].claim("offer/1", f"machine {number}"))

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False] * 7 + [True]
    assert (stores[0].get("offer/1") or b"").startswith(b"machine ")


def test_a_group_meets_by_its_own_values_and_waits_no_longer_than_it_may(raw: "dist.TCPStore") -> None:
    meeting = Meeting(raw, OURS, "generation/3")
    raw.set("generation/3/0", b"forged")
    assert not meeting.check(["0"])
    with pytest.raises(dist.DistStoreError, match="nobody of this job left '0' under 'generation/3'"):
        meeting.wait(["0"], SHORT)
    later = threading.Timer(0.1, Meeting(raw.clone(), OURS, "generation/3").set, ("0", b"address"))
    later.start()
    meeting.wait(["0"], LONG)
    assert meeting.get("0") == b"address"
    assert meeting.check(["0"])
    later.join()


def test_what_rank_0_leaves_in_its_own_memory_comes_to_the_others_sealed(raw: "dist.TCPStore") -> None:
    """As NCCL's id does; nobody has run NCCL on several GPUs here."""
    first = local_copy(Meeting(raw.clone(), OURS, "generation/1"), 0, LONG)
    threading.Timer(0.05, first.set, ("0", b"\x00an id\xff")).start()
    assert local_copy(Meeting(raw, OURS, "generation/1"), 1, LONG).get("0") == b"\x00an id\xff"
    assert all(b"an id" not in raw.get(key) for key in raw.list_keys())
    with pytest.raises(dist.DistStoreError):
        local_copy(Meeting(raw, Secret.new(), "generation/1"), 1, SHORT)


@pytest.mark.parametrize("told", [None, "", "x", "-1", "999999", "0" * 30, "9" * 30])
def test_a_worker_without_its_secret_is_told_what_to_do(told: str | None) -> None:
    given = {} if told is None else {protocol.ENV_SECRET: told}
    if told == "0" * 30:
        given[protocol.ENV_SECRET] = str(os.open(os.devnull, os.O_RDONLY))
    with pytest.raises(Mistake, match=r"its job's secret cannot be read here: FALLOW_SECRET_FD.*pass_fds="):
        inherited(given)


def test_a_secret_is_read_from_its_descriptor_again_and_again() -> None:
    given = {protocol.ENV_SECRET: str(OURS.descriptor)}
    assert inherited(given).key == inherited(given).key == OURS.key
    assert not os.get_inheritable(OURS.descriptor)
