"""Answers named queries from the store's file itself, read-only, when no service runs."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from service.data_folder import store_file
from service.errors import NoData, StoreUnusable
from service.schemas.answer import Row
from service.schemas.values import plain_rows
from service.store.answer import answer
from service.trust.believed import must_trust

if TYPE_CHECKING:
    import pyarrow as pa

    from service.store.open import Store


class FileTransport:
    """The store's file, opened read-only for each question and let go after it: a service may start.

    Who asks many questions at once holds it open meanwhile (``holding``).
    """

    def __init__(self, data: Path) -> None:
        self.url: str | None = None
        self._data = data
        self._held: Store | None = None

    def arrow(self, name: str, params: dict[str, object]) -> "pa.Table":
        """The answer as a ``pyarrow.Table``; blocks. Raises ``ClientError``."""
        parameters = {key: value for key, value in params.items() if value is not None}
        with self._opened() as store, closing(store.reader()) as connection:
            return answer(connection, name, parameters)

    def rows(self, name: str, params: dict[str, object]) -> list[Row]:
        """The answer as JSON-ready objects, as a service would send them."""
        return plain_rows(self.arrow(name, params))

    def export(self, out: Path, kind: str, from_ms: int, to_ms: int) -> tuple[tuple[Path, int], ...]:
        """Write the span's files into ``out``; the files and their rows. Raises ``ClientError``, OSError."""
        from service.store.open import write_export

        with self._opened() as store:
            return write_export(store, out, kind, (from_ms, to_ms))

    def health(self) -> Row:
        """That the file can be read; there is no service to say more."""
        with self._opened():
            return {"service": "fallow", "status": "stopped", "data": str(self._data)}

    def close(self) -> None:
        """Nothing is held between questions."""

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Open for all questions within: no service can start meanwhile. Raises ``ClientError``."""
        with self._opened() as store:
            self._held = store
            try:
                yield
            finally:
                self._held = None

    @contextmanager
    def _opened(self) -> "Iterator[Store]":
        if self._held is not None:
            yield self._held
            return
        must_trust(self._data)
        if not store_file(self._data).exists():
            raise NoData(
                f"no store in {self._data} yet; start one with `fallow serve --data {self._data}`, "
                "or name another with --data or FALLOW_DATA"
            )
        from service.store.open import StoreRefused, open_to_read

        try:
            store = open_to_read(self._data)
        except StoreRefused as refused:
            raise StoreUnusable(str(refused)) from refused
        try:
            yield store
        finally:
            store.close()
