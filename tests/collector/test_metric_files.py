"""Files that repeat the list of metrics have what the list has."""

import pytest

from tests.collector.metric_files import EXPORT, ROOT, TIMELINES, made


@pytest.mark.parametrize("path", [EXPORT, *TIMELINES])
def test_a_file_that_repeats_the_list_of_metrics_is_as_the_list_has_it(path: str) -> None:
    assert (ROOT / path).read_text() == made()[path], "run: python -m tests.collector.metric_files"
