"""Holds the house to its words: what docs/dev/glossary.md has retired names nothing in the code again."""

import ast
from dataclasses import fields

from advisor.jobs import model
from advisor.state.model import Job
from advisor.tags import FORMER, FORMER_FIELDS
from tests.test_house import listed, nodes, relative, sources

RETIRED = frozenset({
    "AdviceRules", "AlertBook", "AlertDesk", "Beat", "Books", "Case", "Channel", "Chore", "Clockwork",
    "ConsentBook", "ConsentParts", "Cradle", "Crew", "Cut", "DataMistake", "Desk", "DeskLimits",
    "Directive", "DoorProtocol", "DoubtBook", "Ears", "Endings", "Entanglement", "Entry", "ExportDesk",
    "FileDoor", "ForeignBook", "ForeignConfig", "ForeignEngine", "ForeignOrders", "Foreigners",
    "Foresight", "Front", "GapBook", "GateRules", "Gathered", "Gathering", "GaveBack",
    "GivenBack", "Glimpse", "Granting", "Ground", "HeldBack", "HttpDoor", "Intake", "Keeper",
    "Letter", "LocalDoor", "LoopMistake", "LossMistake", "MemoryWatching", "Mobility", "Nursery",
    "Organs", "Owed", "PairBook", "PairWatching", "Palette", "PaperParts", "PlaceRules", "Ports",
    "Pulse", "QueryDesk", "Room", "Round", "Scene", "Seat", "Settlement", "Settling", "Shelf",
    "Sighting", "StandingBook", "StateMistake", "Taking", "Together", "Trouble", "Truth", "TruthKind",
    "Victim", "Victims", "Voice", "Wishes",
})  # fmt: skip
"""Classes that have the field's own terms as names now; the glossary says which."""


def test_no_class_has_a_retired_name() -> None:
    broken = [
        f"{relative(path)}:{node.lineno} class {node.name}: docs/dev/glossary.md has the term of today"
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and (node.name in RETIRED or node.name in FORMER)
    ]
    assert not broken, listed(broken)


def test_no_field_has_a_former_name() -> None:
    kinds = (Job, model.JobRecord, model.Report)
    formers = {former for names in FORMER_FIELDS.values() for former in names.values()}
    assert not [(kind.__name__, each.name) for kind in kinds for each in fields(kind) if each.name in formers]
    for kind in (model.JobRecord, model.Report):
        assert FORMER_FIELDS[kind.__name__].keys() <= {each.name for each in fields(kind)}
