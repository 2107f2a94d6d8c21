from __future__ import annotations

import pytest

from pykcp.apis.catalog import all_definitions, builtin_definitions, definition_of
from pykcp.machinery.schema.model import Schema


def test_every_resource_is_defined_once() -> None:
    names = [d.name for d in all_definitions()]
    assert len(names) == len(set(names))
    assert "configmaps" in names
    assert "logicalclusters.core.kcp.io" in names


@pytest.mark.parametrize(
    ("group", "plural", "expected"),
    [
        ("", "configmaps", "BcsYVNKF43M="),
        ("", "events", "9dDOQsG8mfE="),
        ("events.k8s.io", "events", "9dDOQsG8mfE="),
        ("rbac.authorization.k8s.io", "roles", "dL2xUOdnrqs="),
        ("apiextensions.k8s.io", "customresourcedefinitions", "E7AaFfG1bHc="),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies", "psQzeF0nvLY="),
        ("core.kcp.io", "logicalclusters", "MvQtkmhtxGg="),
        ("core.kcp.io", "shards", "8yZbCznV9so="),
        ("apis.kcp.io", "apiexports", "NKCfL4yZ0MU="),
        ("tenancy.kcp.io", "workspaces", "79Pzoa52SfE="),
        ("authorization.k8s.io", "subjectaccessreviews", ""),
    ],
)
def test_storage_version_hashes_are_those_clients_know(
    group: str, plural: str, expected: str
) -> None:
    assert definition_of(group, plural).storage_version_hash == expected


def _walk(schema: Schema, seen: set[int], missing: list[str], path: str) -> None:
    if id(schema.properties) in seen:
        return
    seen.add(id(schema.properties))
    for name, child in schema.properties.items():
        here = f"{path}.{name}"
        if not child.description:
            missing.append(here)
        for node in (child, child.items, child.additional):
            if node is not None:
                _walk(node, seen, missing, here)


def test_every_field_of_every_kind_is_described() -> None:
    missing: list[str] = []
    for definition in all_definitions():
        for version in definition.versions:
            schema = definition.schema(version)
            assert schema.description, definition.name
            _walk(schema, set(), missing, definition.kind)
    assert missing == []


def test_every_column_has_a_cell_and_a_text() -> None:
    for definition in all_definitions():
        for version in definition.versions:
            columns = definition.columns(version)
            assert any(c.format == "name" for c in columns)
            assert all(c.cell is not None and c.description for c in columns)


def test_unknown_resources_and_versions() -> None:
    with pytest.raises(KeyError):
        definition_of("", "pods")
    with pytest.raises(KeyError, match="no version"):
        definition_of("", "configmaps").schema("v2")


def test_not_everything_is_everywhere() -> None:
    everywhere = {d.name for d in builtin_definitions()}
    assert "logicalclusters.core.kcp.io" in everywhere
    assert "workspaces.tenancy.kcp.io" not in everywhere


def test_two_versions_of_one_resource() -> None:
    exports = definition_of("apis.kcp.io", "apiexports")
    assert exports.versions == ("v1alpha2", "v1alpha1")
    assert exports.storage_version == "v1alpha2"
    assert [c.name for c in exports.columns("v1alpha1")] == ["Name", "Age", "Ready"]
    assert "resources" in exports.schema("v1alpha2").properties["spec"].properties
    assert "latestResourceSchemas" in exports.schema("v1alpha1").properties["spec"].properties
