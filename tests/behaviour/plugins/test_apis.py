"""Exports, bindings and claims on the command line."""

from __future__ import annotations

import json

import pytest
import yaml

from pykcp.testing.client import TestClient

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.io"},
    "spec": {
        "group": "example.io",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


def _export(client: TestClient) -> None:
    reply = client.post(
        "/apis/apis.kcp.io/v1alpha2/apiexports",
        {
            "apiVersion": "apis.kcp.io/v1alpha2",
            "kind": "APIExport",
            "metadata": {"name": "widgets"},
            "spec": {
                "resources": [
                    {
                        "group": "example.io",
                        "name": "widgets",
                        "schema": "today.widgets.example.io",
                        "storage": {"crd": {}},
                    }
                ],
                "permissionClaims": [
                    {"group": "", "resource": "configmaps", "verbs": ["*"]},
                    {"group": "", "resource": "secrets", "verbs": ["get"]},
                ],
            },
        },
    )
    assert reply.status == 201, reply


@pytest.fixture
def provider(shell, org, shard) -> str:
    """The path of a workspace that exports widgets; the shell is in a consumer beside it."""
    shell("create-workspace provider")
    shell("create-workspace consumer --enter")
    path = f"root:{org}:provider"
    client = shard.client(cluster=path)
    schema = shell("kcp crd snapshot -f - --prefix today -o json", stdin=json.dumps(CRD))
    reply = client.post(
        "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", json.loads(schema.partition("\n")[0])
    )
    assert reply.status == 201, reply
    _export(client)
    return path


def test_bind_and_answer(shell, provider):
    line = f"kcp bind apiexport {provider}:widgets --name mine"
    assert shell(f"{line} --accept-permission-claim configmaps.core") == (
        "apibinding mine created. Waiting to successfully bind ...\nmine created and bound.\n"
    )
    table = shell("kcp claims get apibinding mine")
    assert table == (
        "APIBINDING   GROUP-RESOURCE   VERBS   STATUS\n"
        "mine         configmaps       *       Accepted\n"
    )
    assert shell("kcp claims reject mine --resource configmaps") == (
        'claim "configmaps" on APIBinding "mine" is rejected\n'
    )
    assert shell("kcp claims get apibinding mine").endswith("Rejected\n")
    shell("ws ..")
    done = shell.run("ws consumer")
    assert done.out.startswith("Current workspace is ")
    assert done.err.splitlines() == [
        "Warning: claim for secrets exported but not specified on APIBinding mine",
        "Add this claim to the APIBinding's Spec.",
        "Warning: claim for secrets specified on APIBinding mine but not accepted or rejected.",
        (
            "Warning: allowed verbs () on claim for secrets on APIBinding mine "
            "do not match expected verbs ()."
        ),
    ]


def test_bind_and_accept_all(shell, provider):
    shell(f"kcp bind apiexport {provider}:widgets --accept-all-permission-claims")
    assert shell("kcp claims get apibinding widgets").splitlines()[1:] == [
        "widgets      configmaps       *       Accepted",
        "widgets      secrets          *       Accepted",
    ]


def test_binding_that_is_refused(shell, provider):
    complaint = shell.fails("kcp bind apiexport root:nosuch:widgets")
    assert complaint == (
        'error: failed to create APIBinding: apibindings.apis.kcp.io "widgets" is forbidden: '
        "unable to create APIBinding: no permission to bind to export root:nosuch:widgets\n"
    )
    assert shell.fails("kcp claims accept nosuch --resource x") == (
        'error: error updating permission claim for APIBinding "nosuch": '
        'apibindings.apis.kcp.io "nosuch" not found\n'
    )


def test_claims_that_do_not_exist(shell, provider):
    shell(f"kcp bind apiexport {provider}:widgets --name mine --accept-all-permission-claims")
    before = 'error: error updating permission claim for APIBinding "mine": '
    assert shell.fails("kcp claims accept mine --resource nosuch.example.com") == (
        before + 'it has no permission claim for "nosuch.example.com"\n'
    )
    assert shell.fails("kcp claims reject mine --identity-hash abc") == (
        before + 'it has no permission claim with identity hash "abc"\n'
    )
    assert shell.fails("kcp claims accept mine") == (
        "error: no claim is selected, use --resource or --identity-hash\n"
    )


def test_what_was_waited_for(shell, provider):
    """A binding that cannot be bound: the error says so, and why."""
    done = shell.run("kcp bind apiexport root:tenancy.kcp.io --name second --timeout 1s")
    assert done.code == 1
    assert "error: could not bind second: context deadline exceeded: it is not bound (" in done.err
    assert "InitialBindingCompleted: " in done.err


def test_quickstart(shell):
    out = shell("kcp quickstart --name-prefix quick --with-samples --enter")
    assert 'Step 7/7: Applying sample Cowboy resource in "quick-consumer"...\n' in out
    assert out.endswith(
        "Current workspace is 'root:quick-org:quick-consumer' (type root:universal).\n"
    )
    again = shell("kcp quickstart --name-prefix quick --with-samples")
    assert '  Cowboy "john-wayne" already exists\n' in again
    gone = shell("kcp quickstart --name-prefix quick --cleanup")
    assert gone.endswith("\nCleanup complete.\nCurrent workspace is 'root' (type root).\n")
    assert "quick-org" not in shell("ws tree")


def test_quickstart_of_a_tree(shell):
    line = "kcp quickstart --scenario workspaces --name-prefix many"
    out = shell(f"{line} --tree-count 8 --tree-depth 2 --tree-seed 3 --enter")
    assert "Creating 8 workspaces (max depth 2, seed 3)" in out
    tree = shell("ws tree")
    assert tree.count("many-ws-") == 8
    shell(f"{line} --cleanup")


def test_pulled_crds(shell) -> None:
    """Built-in kinds by OpenAPI, others by their CRDs; and what they have in common."""
    shell("create-workspace pulled --enter")
    printed = shell("kcp pull-crds configmaps roles.rbac.authorization.k8s.io")
    parts = [yaml.safe_load(part) for part in printed.split("---\n") if part.strip()]
    assert [part["metadata"]["name"] for part in parts] == [
        "configmaps.core",
        "roles.rbac.authorization.k8s.io",
    ]
    schema = parts[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["data"]["additionalProperties"]["type"] == "string"
    done = shell.run("kcp pull-crds --all --output-dir crds")
    assert done.code == 0
    assert "JSONSchemaProps contains itself" in done.err  # CRDs cannot be described by a CRD
    files = {path.name for path in (shell.folder / "crds").iterdir()}
    assert {"configmaps.core.yaml", "workspaces.tenancy.kcp.io.yaml"} <= files
    assert shell("kcp compat crds/configmaps.core.yaml crds/configmaps.core.yaml") == ""


def test_incompatible_crds(shell) -> None:
    def write(name: str, kind: str) -> None:
        changed = json.loads(json.dumps(CRD))
        changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
            "type": "object",
            "properties": {"spec": {"type": kind}, name: {"type": "string"}},
        }
        (shell.folder / f"{name}.yaml").write_text(json.dumps(changed))

    write("a", "string")
    write("b", "string")
    write("c", "integer")
    done = shell.run("kcp compat a.yaml b.yaml")
    assert done.code == 1
    assert "properties[a]: the property has been removed" in done.err
    common = yaml.safe_load(shell("kcp compat a.yaml b.yaml --lcd"))
    schema = common["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"] == {"spec": {"type": "string"}}
    done = shell.run("kcp compat a.yaml c.yaml --lcd")
    assert done.code == 1
    assert 'properties[spec].type: The type changed (was "string", now "integer")' in done.err
    assert "two files are required" in shell.run("kcp compat a.yaml").err
    assert "no resource nosuch" in shell.run("kcp pull-crds nosuch").err
    assert "or use --all" in shell.run("kcp pull-crds").err
