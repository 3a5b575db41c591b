"""Every statement of the alerts takes the parameters that its header names, and no others."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "service" / "alerts" / "sql"
PARAMETERS = {
    "add_letter": "alert body due_ms gathered kind made_ms number opened_ms receiver telling title turn",
    "arrived_tellings": "",
    "ended_jobs": "from_ms least_gpu_hours to_ms",
    "gather_letters": "digest numbers",
    "mark": "at_ms watched",
    "next_numbers": "",
    "note_telling": "at_ms number",
    "post_letter": "at_ms number",
    "put_case": (
        "at_ms because closed_ms command evidence gpus job key kind level next node number opened_ms project "
        "rung says since_ms title told_level told_ms user_name"
    ),
    "reach_telling": "at_ms job since_ms way",
    "read_cases": "told_ms",
    "read_letters": "due_ms",
    "release_letter": "number",
    "sent_lately": "since_ms",
    "settle_letter": "at_ms found number outcome",
    "told_receivers": "alert",
    "unmark": "watched",
    "waiting_tellings": "job receiver",
}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_parameters_are_those_the_header_names(path: Path) -> None:
    lines = path.read_text().splitlines()
    header = "\n".join(line for line in lines if line.startswith("--"))
    body = "\n".join(line for line in lines if not line.startswith("--"))
    assert path.stem in PARAMETERS, f"{path.stem}.sql has no line in this table"
    used = sorted(set(re.findall(r"\$(\w+)", body)))
    assert used == PARAMETERS[path.stem].split()
    for parameter in used:
        assert re.search(rf"\b{parameter}\b", header), f"{path.stem}: the header does not name {parameter}"
