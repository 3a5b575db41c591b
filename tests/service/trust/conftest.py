"""A machine with several accounts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.trust.accounts import machine


@pytest.fixture
def there() -> Iterator[Path]:
    with machine() as folder:
        yield folder
