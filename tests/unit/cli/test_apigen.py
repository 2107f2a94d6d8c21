"""CRDs in one folder, schemas and exports in another."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from pykcp.cli import apigen
from pykcp.cli.apigen import Failure, GeneratedKind, exports, generate, latest, read_options

CRD = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {resource}.{group}
spec:
  group: {group}
  names: {{plural: {resource}, singular: one, kind: One, listKind: OneList}}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {{type: object, description: "{text}"}}
"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    monkeypatch.setattr(apigen, "_tell", lambda *_, **__: None)
    return tmp_path


def _crd(folders: pathlib.Path, resource: str, group: str = "x.io", text: str = "t") -> None:
    content = CRD.format(resource=resource, group=group, text=text)
    (folders / "in" / f"{group}_{resource}.yaml").write_text(content, encoding="utf-8")


def _run(folders: pathlib.Path, commit: str, *flags: str) -> dict[str, dict]:
    words = ["--input-dir", str(folders / "in"), "--output-dir", str(folders / "out"), *flags]
    generate(read_options(words), commit)
    return {
        file.name: yaml.safe_load(file.read_text(encoding="utf-8"))
        for file in (folders / "out").iterdir()
    }


def test_a_schema_per_kind_and_an_export_per_group(folders):
    _crd(folders, "foos")
    _crd(folders, "bars")
    _crd(folders, "roles", "rbac.authorization.k8s.io")
    made = _run(folders, "abc")
    assert set(made) == {
        "apiexport-x.io.yaml",
        "apiresourceschema-foos.x.io.yaml",
        "apiresourceschema-bars.x.io.yaml",
    }
    schema = made["apiresourceschema-foos.x.io.yaml"]
    name = schema["metadata"]["name"]
    assert name.endswith("-abc.foos.x.io")
    assert "conversion" not in schema["spec"]
    resources = made["apiexport-x.io.yaml"]["spec"]["resources"]
    assert [one["name"] for one in resources] == ["bars", "foos"]
    assert resources[1] == {
        "group": "x.io",
        "name": "foos",
        "schema": name,
        "storage": {"crd": {}},
    }


def test_what_has_not_changed_keeps_its_name(folders):
    _crd(folders, "foos")
    _crd(folders, "bars")
    _run(folders, "old")
    _crd(folders, "bars", text="other")
    made = _run(folders, "new")
    names = {
        kind: made[f"apiresourceschema-{kind}.x.io.yaml"]["metadata"]["name"].split("-")[1]
        for kind in ("foos", "bars")
    }
    assert names == {"foos": "old.foos.x.io", "bars": "new.bars.x.io"}


def test_what_is_gone_is_removed(folders):
    _crd(folders, "foos")
    _crd(folders, "bars", "y.io")
    _run(folders, "a")
    (folders / "in" / "y.io_bars.yaml").unlink()
    assert set(_run(folders, "a")) == {"apiexport-x.io.yaml", "apiresourceschema-foos.x.io.yaml"}


def test_headers_carry_the_year(folders):
    _crd(folders, "foos")
    header = folders / "header"
    header.write_text("# (c) YEAR\n", encoding="utf-8")
    _run(folders, "a", "--header-file", str(header))
    text = (folders / "out" / "apiexport-x.io.yaml").read_text(encoding="utf-8")
    assert text.startswith("# (c) 2")
    assert "\n\napiVersion: " in text


def _schemas(*kinds: GeneratedKind) -> dict[GeneratedKind, dict]:
    return {kind: {"metadata": {"name": f"v.{kind}"}, "spec": {}} for kind in kinds}


def test_kcp_s_own_exceptions():
    made = exports(
        _schemas(
            GeneratedKind("shards", "core.kcp.io"),
            GeneratedKind("logicalclusters", "core.kcp.io"),
            GeneratedKind("others", "core.kcp.io"),
            GeneratedKind("hidden", "x.io"),
        ),
        {},
        [GeneratedKind("hidden", "x.io")],
        preserves=False,
    )
    assert {name: [one["name"] for one in export["spec"]["resources"]] for name, export in made.items()} == {
        "core.kcp.io": ["others"],
        "shards.core.kcp.io": ["shards"],
    }  # fmt: skip


@pytest.mark.parametrize(("preserves", "names"), [(True, ["kept", "foos"]), (False, ["foos"])])
def test_existing_exports(preserves, names):
    before = {
        "metadata": {"name": "x.io", "annotations": {"a": "b"}},
        "spec": {
            "maximalPermissionPolicy": {"local": {}},
            "resources": [{"group": "z.io", "name": "kept", "schema": "s", "storage": {"crd": {}}}],
        },
    }
    made = exports(
        _schemas(GeneratedKind("foos", "x.io")), {"x.io": before}, [], preserves=preserves
    )
    export = made["x.io"]
    assert [one["name"] for one in export["spec"]["resources"]] == names
    assert export["metadata"] == before["metadata"]
    assert export["spec"]["maximalPermissionPolicy"] == {"local": {}}


def test_differences_that_mean_nothing():
    kind = GeneratedKind("foos", "x.io")
    old = {"spec": {"versions": [{"name": "v1", "schema": {"type": "object"}, "subresources": {}}]}}
    new = {"spec": {"versions": [{"name": "v1", "schema": {"type": "object"}}]}}
    assert latest({kind: old}, {kind: new})[kind] is old


@pytest.mark.parametrize(
    ("words", "step", "reason"),
    [
        ([], "Invalid options.", "--input-dir is required"),
        (["--input-dir", "a"], "Invalid options.", "--output-dir is required"),
        (["--bogus"], "Could not parse options.", "unknown flag: --bogus"),
        (
            ["--input-dir=a", "--output-dir=b", "--ignore-export-schemas=x"],
            "Invalid options.",
            'invalid schema "x": must have at least 2 dot-separated segments',
        ),
    ],
)
def test_options_that_make_no_sense(words, step, reason):
    with pytest.raises(Failure) as caught:
        read_options(words)
    assert (caught.value.step, str(caught.value)) == (step, reason)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.yaml", "", "could not parse filename a.yaml as group_resource.yaml"),
        ("x.io_foos.yaml", "kind: Foo", "it holds no CustomResourceDefinition"),
        ("x.io_foos.yaml", "a: [", "failed to read x.io_foos.yaml: yaml: line"),
    ],
)
def test_files_that_cannot_be_used(folders, name, content, reason):
    (folders / "in" / name).write_text(content, encoding="utf-8")
    with pytest.raises(Failure, match=reason):
        _run(folders, "a")
