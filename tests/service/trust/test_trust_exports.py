"""Who exports into a folder that others share writes there, and through no link that one of them has laid."""

import io
import tarfile
from pathlib import Path

import pytest

from service.schemas.export_archive import unpack
from tests.collector.store.store_parts import T0, TICK_MS, at_path, sample, tick
from tests.stores import open_store

pytestmark = pytest.mark.quick


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the person who exports, and links to it under the names of files on their way."""
    found = tmp_path / "precious"
    found.write_text("mine")
    (tmp_path / "shared").mkdir()
    for name in ("samples.csv", "samples.parquet"):
        (tmp_path / "shared" / f".{name}.writing").symlink_to(found)
    return found


def test_what_a_service_sent_is_not_written_through_a_link(precious: Path) -> None:
    sent = io.BytesIO()
    with tarfile.open(fileobj=sent, mode="w") as made:
        member = tarfile.TarInfo("samples.csv")
        member.size = len(b"uuid\n")
        made.addfile(member, io.BytesIO(b"uuid\n"))
    sent.seek(0)
    with tarfile.open(fileobj=sent) as stream:
        ((file, _),) = unpack(stream, precious.parent / "shared")
    assert precious.read_text() == "mine"
    assert file.read_text() == "uuid\n" and not file.is_symlink()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_a_store_exports_is_not_written_through_a_link(
    tmp_path: Path, precious: Path, kind: str
) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(tick(T0 + TICK_MS, [sample(0, T0 + TICK_MS, 0.25)]))
        done = store.export(tmp_path / "shared", kind, T0, T0 + TICK_MS)  # type: ignore[arg-type]
    assert precious.read_text() == "mine"
    assert all(file.is_file() and not file.is_symlink() for file in done.files)
    assert len(list((tmp_path / "shared").iterdir())) == len(done.files) + 1, (
        "the other format's link is left"
    )
