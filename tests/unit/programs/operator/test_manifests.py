"""A directory of manifests: what is read, what is ignored, how mistakes are named."""

from __future__ import annotations

import pathlib

import pytest

from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.host.installation import Installation
from pykcp.programs.operator.host.layout import HostChoices, HostFiles
from pykcp.programs.operator.host.manifests import load_manifests
from pykcp.programs.operator.host.settings import UpSettings
from pykcp.programs.operator.variants import variant_manifests, variant_names

ROOT = """
apiVersion: operator.kcp.io/v1alpha1
kind: RootShard
metadata: {name: root, namespace: kcp}
spec:
  external: {hostname: localhost, port: 6443}
  certificates: {}
  cache: {}
"""


def _problems(directory: pathlib.Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (directory / f"{name}.yaml").write_text(text)
    with pytest.raises(SettingsError) as found:
        load_manifests(directory)
    return [line.replace(f"{directory}/", "") for line in str(found.value).splitlines()]


def test_objects_secrets_and_the_rest(tmp_path: pathlib.Path) -> None:
    (tmp_path / "root.yaml").write_text(ROOT)
    (tmp_path / "more.yml").write_text(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: given}\nstringData: {tls.crt: pem}\n"
        "---\n---\napiVersion: cert-manager.io/v1\nkind: Issuer\nmetadata: {name: selfsigned}\n"
    )
    (tmp_path / "README.md").write_text("not a manifest: [")
    found = load_manifests(tmp_path)
    assert [one["metadata"]["name"] for one in found.objects] == ["root"]
    assert found.namespace == "kcp"
    assert found.records[0].data == {"tls.crt": b"pem"}
    assert found.ignored == ["Issuer/selfsigned"]


def test_each_mistake_is_named_with_its_file_and_field(tmp_path: pathlib.Path) -> None:
    problems = _problems(
        tmp_path,
        a=ROOT.replace("port: 6443", "port: 99999"),
        b=ROOT.replace("name: root", "name: other").replace("  cache: {}\n", ""),
        c="kind: [",
        d=ROOT.replace("kind: RootShard", "kind: RootShart"),
        e="- just\n- a list\n",
    )
    assert any(
        p.startswith("a.yaml: document 1: RootShard/root: spec.external.port: Invalid value")
        for p in problems
    )
    assert any(
        "b.yaml: document 1: RootShard/other: spec.cache: Required value" in p for p in problems
    )
    assert any(p.startswith("c.yaml: not YAML in line 1") for p in problems)
    assert any(
        'd.yaml: document 1: RootShart/root: no matches for kind "RootShart"' in p for p in problems
    )
    assert "e.yaml: document 1: not an object: apiVersion and kind are required" in problems


def test_an_unknown_field_is_named(tmp_path: pathlib.Path) -> None:
    (problem,) = _problems(tmp_path, a=ROOT + "  replicaz: 2\n")
    assert 'unknown field "spec.replicaz"' in problem


def test_an_object_that_exists_twice_and_several_namespaces(tmp_path: pathlib.Path) -> None:
    problems = _problems(
        tmp_path,
        a=ROOT,
        b=ROOT,
        c=ROOT.replace("name: root, namespace: kcp", "name: two, namespace: other"),
    )
    assert any("b.yaml: document 1: RootShard/root: exists already in" in p for p in problems)
    assert any("several namespaces" in p for p in problems)


def test_a_directory_that_does_not_exist(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SettingsError, match="does not exist"):
        load_manifests(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["dekker", "vespucci", "comer", "zheng"])
@pytest.mark.parametrize("domain", ["", "example.com"])
def test_the_variants_are_valid(tmp_path: pathlib.Path, name: str, domain: str) -> None:
    assert name in variant_names()
    (tmp_path / "v.yaml").write_text(variant_manifests(name, domain))
    found = load_manifests(tmp_path)
    assert found.namespace == f"kcp-{name}"
    text = variant_manifests(name, domain)
    assert ("api.example.com" in text) == bool(domain)


def test_manifests_without_any_object_of_an_installation(tmp_path: pathlib.Path) -> None:
    (tmp_path / "other.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n")
    installation = Installation(HostFiles(tmp_path / ".kcp"), HostChoices(str(tmp_path)))
    with pytest.raises(SettingsError, match=r"has no objects of .*: nothing would run"):
        installation.check()


def test_a_kind_without_its_group_is_refused(tmp_path: pathlib.Path) -> None:
    assert _problems(tmp_path, half="kind: Shard\nmetadata: {name: alpha}\n") == [
        "half.yaml: document 1: Shard/alpha: apiVersion and kind are required"
    ]


def test_the_names_of_the_variants_are_listed() -> None:
    (problem,) = UpSettings.parse(["--variant=dekkr"])[0].up.problems()
    assert problem == "--variant 'dekkr' must be dekker, vespucci, comer or zheng"
