"""The manifests: valid by Kubernetes' own schema, no right to change anything, files that Fallow reads."""

from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from service.config.file import load
from tests.collector.managers.kubernetes import cluster_answers as answers

FILE = Path(__file__).parents[2] / "packaging" / "kubernetes" / "fallow.yaml"


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(FILE.read_text()))


def validate(made: dict[str, Any], version: str) -> None:
    checker = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    checker.validate(made, version, strict=True)


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_each_manifest_is_one_by_kubernetes_own_schema(version: str) -> None:
    made = manifests()
    assert len(made) == 9
    for each in made:
        validate(each, version)


def test_the_schema_finds_what_is_misspelt() -> None:
    checker = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    wrong = next(each for each in manifests() if each["kind"] == "Deployment")
    wrong["spec"]["template"]["spec"]["container"] = []
    with pytest.raises(checker.ValidationError):
        validate(wrong, "1.37")


def test_what_the_tests_take_for_answers_are_objects_by_the_schema() -> None:
    """No cluster was recorded: that these are shaped as one's objects rests on the published schema."""
    for each in (
        answers.pod("a", 1),
        answers.pod("a", 1, node=None),
        answers.node("gpu-a"),
        answers.claim("a", 1),
        answers.resource_slice(),
    ):
        validate(each, "1.37")


def test_the_head_may_list_what_it_asks_for_and_nothing_else() -> None:
    from collector.managers.kubernetes import reader

    (role,) = [each for each in manifests() if each["kind"] == "ClusterRole"]
    granted = {
        (group, kind) for rule in role["rules"] for group in rule["apiGroups"] for kind in rule["resources"]
    }
    assert [verb for rule in role["rules"] for verb in rule["verbs"]] == ["list"] * 4
    kinds = (reader.CLAIMS, reader.SLICES, reader.WORKLOADS, reader.GROUPS)
    asked = {("", "pods"), ("", "nodes"), *((each.group, each.plural) for each in kinds)}
    assert granted == asked


def test_its_files_are_configurations(tmp_path: Path) -> None:
    (config,) = [each for each in manifests() if each["kind"] == "ConfigMap"]
    for name, text in config["data"].items():
        (tmp_path / name).write_text(text)
    head, node = (load(tmp_path / name, {}).config for name in ("fallow.toml", "node.toml"))
    assert (head.collect.kubernetes, head.collect.sources) == ("in-cluster", ("nodes",))
    assert node.node.head == "http://fallow.fallow.svc:9475"
