"""A quick run leaves out only files that have no quick test, and says what run.sh says."""

from pathlib import Path

import pytest

from tests.conftest import PROCESS_FOLDERS, QUICK, TESTS, is_never_quick

ONE_TEST = "\n\ndef test_one() -> None:\n    pass\n"


@pytest.mark.parametrize(
    ("mark", "never"),
    [
        ("pytestmark = pytest.mark.slow", True),
        ("pytestmark = [pytest.mark.slow, pytest.mark.process]", True),
        ("pytestmark = pytest.mark.browser", True),
        ("pytestmark = pytest.mark.long", True),
        ("pytestmark = pytest.mark.gpu", True),
        ("pytestmark = pytest.mark.quick", False),
        ("pytestmark = pytest.mark.timeout(900)", False),
        ("pytestmark = pytest.mark.slowly", False),
        ("@pytest.mark.slow", False),
        ("", False),
    ],
)
def test_a_file_is_left_out_by_the_marker_of_all_its_tests(tmp_path: Path, mark: str, never: bool) -> None:
    path = tmp_path / "test_one.py"
    path.write_text(f"import pytest\n\n{mark}{ONE_TEST}")
    assert is_never_quick(path) is never


def test_a_file_of_a_folder_of_processes_is_read_for_its_quick_tests() -> None:
    files = [path for folder in PROCESS_FOLDERS for path in (TESTS / folder).glob("test_*.py")]
    left_out = {path for path in files if is_never_quick(path)}
    assert left_out and left_out < set(files)
    assert {path for path in files if "mark.quick" not in path.read_text()} <= left_out


def test_it_is_a_quick_run_by_the_words_that_the_script_gives() -> None:
    assert f'-m "{QUICK}"' in (TESTS / "run.sh").read_text()
