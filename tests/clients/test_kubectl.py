"""kubectl's everyday commands, with every kubectl that can be had, in logical clusters."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import re
import sys
import tomllib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pykcp.testing.kubectl import Kubectl
from pykcp.testing.server import ServerProcess, environment
from pykcp.types import Object


def config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def needs(kubectl: Kubectl, minor: int) -> None:
    if kubectl.minor < minor:
        pytest.skip(f"kubectl 1.{kubectl.minor} does not have this; 1.{minor} has")


def test_version(kubectl: Kubectl) -> None:
    version = kubectl.json("version")["serverVersion"]
    assert version["gitVersion"].startswith("v1.36.")
    assert "+kcp-" in version["gitVersion"]


def test_api_resources(kubectl: Kubectl) -> None:
    """Kinds with their short names, groups, scopes and verbs."""
    lines = [line.split() for line in kubectl("api-resources", "-o", "wide").splitlines()]
    rows = {line[0]: line for line in lines if line}
    assert rows["configmaps"][1:5] == ["cm", "v1", "true", "ConfigMap"]
    assert "deletecollection" in " ".join(rows["configmaps"])
    assert "clusterroles" in rows
    names = kubectl("api-resources", "-o", "name", "--namespaced=false", "--api-group=").split()
    assert names == ["namespaces"]
    assert "rbac.authorization.k8s.io/v1" in kubectl("api-versions").split()


def test_create(kubectl: Kubectl) -> None:
    """The generators of `create`, and what they make."""
    assert kubectl("create", "ns", "x") == "namespace/x created\n"
    in_x = ("-n", "x")
    assert kubectl("create", "cm", "c", "--from-literal=a=b", *in_x) == "configmap/c created\n"
    assert kubectl("create", "sa", "s", *in_x) == "serviceaccount/s created\n"
    assert kubectl("create", "quota", "q", "--hard=configmaps=5", *in_x) == (
        "resourcequota/q created\n"
    )
    kubectl("create", "secret", "generic", "g", "--from-literal=p=geheim", *in_x)
    secret = kubectl.json("get", "secret", "g", *in_x)
    assert secret["data"] == {"p": base64.b64encode(b"geheim").decode()}
    assert 'configmaps "c" already exists' in kubectl.fails("create", "cm", "c", *in_x)
    assert "is invalid: metadata.name" in kubectl.fails("create", "cm", "A_b", *in_x)


def test_get(kubectl: Kubectl) -> None:
    """Every form of output."""
    kubectl("create", "cm", "one", "--from-literal=colour=blue")
    kubectl("label", "cm", "one", "app=mine")
    wide = kubectl("get", "cm", "one", "-o", "wide", "--show-labels").splitlines()
    assert wide[0].split() == ["NAME", "DATA", "AGE", "LABELS"]
    assert re.fullmatch(r"one +1 +\d+s +app=mine", wide[1])
    assert kubectl("get", "cm", "one", "-o", "name") == "configmap/one\n"
    assert kubectl.json("get", "cm", "one")["data"] == {"colour": "blue"}
    assert "\n  colour: blue\n" in kubectl("get", "cm", "one", "-o", "yaml")
    assert kubectl("get", "cm", "one", "-o", "jsonpath={.data.colour}") == "blue"
    columns = "custom-columns=NAME:.metadata.name,C:.data.colour"
    assert kubectl("get", "cm", "-l", "app", "-o", columns).split() == ["NAME", "C", "one", "blue"]
    assert kubectl("get", "cm", "--field-selector=metadata.name=one", "-o", "name") == (
        "configmap/one\n"
    )
    assert re.search(r"(?m)^default +one ", kubectl("get", "cm", "-A"))
    assert 'configmaps "two" not found' in kubectl.fails("get", "cm", "two")
    assert "the server doesn't have a resource type" in kubectl.fails("get", "nonsense")
    assert "No resources found" in kubectl.attempt("get", "leases").stderr


def test_get_in_pages_and_order(kubectl: Kubectl) -> None:
    """A list longer than a page comes whole; --sort-by orders it."""
    items = [config_map(f"page-{number:02}") for number in range(12)]
    kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})
    wanted = [f"configmap/page-{number:02}" for number in range(12)]
    names = kubectl("get", "cm", "--chunk-size=5", "--sort-by=.metadata.name", "-o", "name")
    assert [name for name in names.split() if "page" in name] == wanted
    rows = kubectl("get", "cm", "--chunk-size=5").splitlines()
    assert len([row for row in rows if row.startswith("page-")]) == 12


def test_describe(kubectl: Kubectl) -> None:
    kubectl("create", "cm", "one", "--from-literal=colour=blue")
    described = kubectl("describe", "cm", "one")
    assert re.search(r"Name: +one\nNamespace: +default\n", described)
    assert "colour:\n----\nblue\n" in described
    kubectl("create", "quota", "q", "--hard=configmaps=5")
    described = kubectl("describe", "ns", "default")
    assert re.search(r"Status: +Active", described)
    assert "Resource Quotas" in described
    kubectl("create", "role", "r", "--verb=get", "--resource=configmaps")
    assert re.search(r"configmaps +\[\] +\[\] +\[get\]", kubectl("describe", "role", "r"))
    assert re.search(r"Image pull secrets: +<none>", kubectl("describe", "sa", "default"))


def test_explain(kubectl: Kubectl) -> None:
    """Every field of a kind, each with a description."""
    recursive = kubectl("explain", "configmap", "--recursive")
    for field in ("binaryData", "immutable", "ownerReferences", "blockOwnerDeletion"):
        assert field in recursive
    top = kubectl("explain", "configmap")
    assert "<no description>" not in top
    assert "immutable" in top
    assert re.search(r"(?i)\bverbs\b.*\[\]string", kubectl("explain", "role.rules.verbs"))
    assert 'field "nonsense" does not exist' in kubectl.fails("explain", "configmap.nonsense")


@pytest.mark.parametrize(
    "kubectl_binary",
    ["path", *(pytest.param(name, marks=pytest.mark.slow) for name in ("current", "debian"))],
    indirect=True,
)
def test_explain_all_kinds(kubectl: Kubectl) -> None:
    """Nothing that is served goes unexplained."""
    for line in kubectl("api-resources", "--no-headers").splitlines():
        resource, *_, api_version, _, _ = line.split()
        version = f"--api-version={api_version}"
        assert "apiVersion" in kubectl("explain", resource, "--recursive", version), line
        assert "<no description>" not in kubectl("explain", resource, version), line


def test_apply(kubectl: Kubectl) -> None:
    """Client-side apply: make, leave, change; what was taken out of the manifest goes."""
    first, second = config_map("one", a="1", b="2"), config_map("one", a="3")
    assert kubectl("apply", "-f", "-", stdin=first) == "configmap/one created\n"
    assert kubectl("apply", "-f", "-", stdin=first) == "configmap/one unchanged\n"
    kubectl("patch", "cm", "one", "-p", '{"data":{"c":"by another"}}')
    assert kubectl("apply", "-f", "-", stdin=second) == "configmap/one configured\n"
    assert kubectl.json("get", "cm", "one")["data"] == {"a": "3", "c": "by another"}
    assert "serverside-applied" not in kubectl("apply", "-f", "-", "--dry-run=server", stdin=first)
    assert kubectl.json("get", "cm", "one")["data"]["a"] == "3"
    last = kubectl("apply", "view-last-applied", "cm/one", "-o", "json")
    assert json.loads(last)["data"] == {"a": "3"}


def test_apply_merges_lists(kubectl: Kubectl) -> None:
    """Lists with keys are merged by the schema that the server publishes."""
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}}
    kubectl("apply", "-f", "-", stdin={**account, "secrets": [{"name": "one"}]})
    kubectl("patch", "sa", "s", "-p", '{"secrets":[{"name":"two"}]}')
    kubectl("apply", "-f", "-", stdin={**account, "secrets": [{"name": "three"}]})
    names = {entry["name"] for entry in kubectl.json("get", "sa", "s")["secrets"]}
    assert names == {"two", "three"}


def test_apply_with_mistakes(kubectl: Kubectl) -> None:
    """Unknown fields and wrong types are refused, by kubectl or by the server."""
    misspelt = {**config_map("one"), "datta": {"a": "b"}}
    assert "datta" in kubectl.fails("apply", "-f", "-", stdin=misspelt)
    wrong = {**config_map("one"), "data": {"a": 1}}
    assert kubectl.fails("apply", "-f", "-", stdin=wrong)
    unknown = {**config_map("one"), "kind": "Nonsense"}
    assert 'no matches for kind "Nonsense"' in kubectl.fails("apply", "-f", "-", stdin=unknown)
    assert kubectl.fails("get", "cm", "one")


def test_server_side_apply(kubectl: Kubectl) -> None:
    """Managers own what they apply; a conflict names field and owner; force takes it over."""
    apply = ("apply", "--server-side", "-f", "-")
    one, two = config_map("one", a="1"), config_map("one", a="2", b="2")
    assert kubectl(*apply, "--field-manager=x", stdin=one) == ("configmap/one serverside-applied\n")
    refusal = kubectl.fails(*apply, "--field-manager=y", stdin=two)
    assert 'conflict with "x"' in refusal
    assert ".data.a" in refusal
    kubectl(*apply, "--field-manager=y", "--force-conflicts", stdin=two)
    kubectl(*apply, "--field-manager=x", stdin=config_map("one"))
    kept = json.loads(kubectl("get", "cm", "one", "-o", "json"))
    assert kept["data"] == {"a": "2", "b": "2"}


def test_apply_changes_over(kubectl: Kubectl) -> None:
    """From client-side to server-side apply, without a conflict and without leftovers."""
    needs(kubectl, 26)
    kubectl("apply", "-f", "-", stdin=config_map("one", a="1", b="2"))
    kubectl("apply", "--server-side", "-f", "-", stdin=config_map("one", a="3"))
    assert kubectl.json("get", "cm", "one")["data"] == {"a": "3"}


def test_diff(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=config_map("one", a="1"))
    assert kubectl("diff", "-f", "-", stdin=config_map("one", a="1")) == ""
    done = kubectl.attempt("diff", "-f", "-", stdin=config_map("one", a="2"))
    assert done.returncode == 1, done.stderr
    assert '-  a: "1"' in done.stdout
    assert '+  a: "2"' in done.stdout
    done = kubectl.attempt("diff", "--server-side", "-f", "-", stdin=config_map("two", a="1"))
    assert done.returncode == 1, done.stderr
    assert "+kind: ConfigMap" in done.stdout
    assert kubectl.json("get", "cm", "one")["data"] == {"a": "1"}


def test_edit(kubectl: Kubectl, tmp_path: pathlib.Path) -> None:
    """What the editor leaves is written; a mistake comes back with the reason in the file."""
    kubectl("create", "cm", "one", "--from-literal=colour=blue")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/blue/red/ "$1"\n')
    editor.chmod(0o755)
    assert kubectl("edit", "cm", "one", KUBE_EDITOR=str(editor)) == "configmap/one edited\n"
    assert kubectl.json("get", "cm", "one")["data"] == {"colour": "red"}
    untouched = kubectl.attempt("edit", "cm", "one", KUBE_EDITOR="true")
    assert "Edit cancelled, no changes made" in untouched.stdout + untouched.stderr
    editor.write_text('#!/bin/sh\nsed -i "s/name: one/name: A_b/" "$1"\n')
    assert kubectl.fails("edit", "cm", "one", KUBE_EDITOR=str(editor))


def test_patch(kubectl: Kubectl) -> None:
    """Strategic merge, merge and JSON patch, each with its own idea of a list."""
    kubectl(
        "create",
        "-f",
        "-",
        stdin={
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "s"},
            "secrets": [{"name": "one"}],
        },
    )

    def names() -> list[str]:
        return [entry["name"] for entry in kubectl.json("get", "sa", "s").get("secrets", [])]

    kubectl("patch", "sa", "s", "-p", '{"secrets":[{"name":"two"}]}')
    assert sorted(names()) == ["one", "two"]
    kubectl("patch", "sa", "s", "--type=merge", "-p", '{"secrets":[{"name":"three"}]}')
    assert names() == ["three"]
    step = '[{"op":"replace","path":"/secrets/0/name","value":"four"}]'
    assert kubectl("patch", "sa", "s", "--type=json", "-p", step) == "serviceaccount/s patched\n"
    assert names() == ["four"]
    assert "(no change)" in kubectl("patch", "sa", "s", "--type=json", "-p", step)
    failing = '[{"op":"test","path":"/secrets/0/name","value":"five"}]'
    assert kubectl.fails("patch", "sa", "s", "--type=json", "-p", failing)
    deletion = '{"secrets":[{"$patch":"delete","name":"four"}]}'
    kubectl("patch", "sa", "s", "-p", deletion)
    assert names() == []


def test_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("create", "cm", "one")
    for command, field in (("label", "labels"), ("annotate", "annotations")):
        kubectl(command, "cm", "one", "key=1")
        assert kubectl.fails(command, "cm", "one", "key=2")
        kubectl(command, "cm", "one", "key=2", "--overwrite")
        assert kubectl.json("get", "cm", "one")["metadata"][field]["key"] == "2"
        kubectl(command, "cm", "one", "key-")
        assert "key" not in kubectl.json("get", "cm", "one")["metadata"].get(field, {})
    wrong = {"metadata": {"labels": {"key": "x" * 64}}}
    refusal = kubectl.fails("patch", "cm", "one", "-p", json.dumps(wrong))
    assert "metadata.labels: Invalid value" in refusal
    assert "must be no more than 63" in refusal


def test_replace(kubectl: Kubectl) -> None:
    """Replacing takes everything away that is not given; with an old version it is refused."""
    kubectl("create", "cm", "one", "--from-literal=a=1")
    old = kubectl.json("get", "cm", "one")
    assert kubectl("replace", "-f", "-", stdin=config_map("one", b="2")) == (
        "configmap/one replaced\n"
    )
    assert kubectl.json("get", "cm", "one")["data"] == {"b": "2"}
    assert "the object has been modified" in kubectl.fails("replace", "-f", "-", stdin=old)
    kubectl("replace", "--force", "-f", "-", stdin=config_map("one", c="3"))
    again = kubectl.json("get", "cm", "one")
    assert again["data"] == {"c": "3"}
    assert again["metadata"]["uid"] != old["metadata"]["uid"]


def test_wait(kubectl: Kubectl) -> None:
    """For a condition, for a field, for a deletion, and in vain."""
    kubectl("create", "-f", "-", stdin=signing_request("mine"))
    missed = kubectl.fails("wait", "--for=condition=Approved", "csr/mine", "--timeout=1s")
    assert "timed out" in missed
    kubectl("certificate", "approve", "mine")
    met = kubectl("wait", "--for=condition=Approved", "csr/mine", "--timeout=20s")
    assert met == "certificatesigningrequest.certificates.k8s.io/mine condition met\n"
    kubectl("create", "ns", "x")
    if kubectl.minor >= 23:
        kubectl("wait", "--for=jsonpath={.status.phase}=Active", "ns/x", "--timeout=20s")
    kubectl("delete", "ns", "x", "--wait=false")
    kubectl.attempt("wait", "--for=delete", "ns/x", "--timeout=20s")
    assert 'namespaces "x" not found' in kubectl.fails("get", "ns", "x")


def signing_request(name: str) -> Object:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    pem = request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": "example.com/signer",
            "usages": ["client auth"],
        },
    }


def test_get_and_watch(kubectl: Kubectl) -> None:
    """`get -w` first shows what is there, then what happens, as rows of a table."""
    kubectl("create", "cm", "one")
    follow = ("get", "cm", "-w", "--output-watch-events", "--field-selector=metadata.name=one")
    with kubectl.following(*follow) as lines:
        assert next(lines).split() == ["EVENT", "NAME", "DATA", "AGE"]
        assert next(lines).split()[:3] == ["ADDED", "one", "0"]
        kubectl("patch", "cm", "one", "-p", '{"data":{"a":"b"}}')
        assert next(lines).split()[:3] == ["MODIFIED", "one", "1"]
        kubectl("delete", "cm", "one")
        assert next(lines).split()[:3] == ["DELETED", "one", "1"]
    kubectl("create", "cm", "two")
    with kubectl.following("get", "cm", "two", "-w", "-o", "jsonpath={.data}{'\\n'}") as lines:
        assert next(lines) == "\n"
        kubectl("patch", "cm", "two", "-p", '{"data":{"a":"b"}}')
        assert json.loads(next(lines)) == {"a": "b"}


OWNER = "owner"


def family(kubectl: Kubectl) -> None:
    """An owner and one that it owns."""
    kubectl("create", "cm", OWNER)
    uid = kubectl.json("get", "cm", OWNER)["metadata"]["uid"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": OWNER,
        "uid": uid,
        "blockOwnerDeletion": True,
    }
    owned = config_map("owned")
    owned["metadata"]["ownerReferences"] = [reference]
    kubectl("create", "-f", "-", stdin=owned)


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_delete_with_what_is_owned(kubectl: Kubectl, cascade: str) -> None:
    family(kubectl)
    assert kubectl("delete", "cm", OWNER, f"--cascade={cascade}") == (
        f'configmap "{OWNER}" deleted\n'
        if kubectl.minor < 34
        else f'configmap "{OWNER}" deleted from default namespace\n'
    )
    kubectl.attempt("wait", "--for=delete", "cm/owned", "--timeout=20s")
    assert "not found" in kubectl.fails("get", "cm", "owned")
    assert "not found" in kubectl.fails("get", "cm", OWNER)


def test_delete_without_what_is_owned(kubectl: Kubectl) -> None:
    family(kubectl)
    kubectl("delete", "cm", OWNER, "--cascade=orphan")
    assert "not found" in kubectl.fails("get", "cm", OWNER)
    assert "ownerReferences" not in kubectl.json("get", "cm", "owned")["metadata"]


def test_delete_many(kubectl: Kubectl) -> None:
    for name in ("one", "two", "three"):
        kubectl("create", "cm", name)
    kubectl("label", "cm", "one", "two", "app=mine")
    kubectl("delete", "cm", "-l", "app=mine")
    assert "configmap/three" in kubectl("get", "cm", "-o", "name")
    assert kubectl("delete", "cm", "four", "--ignore-not-found") == ""
    kubectl("delete", "cm", "three", "--now")
    assert "three" not in kubectl("get", "cm", "-o", "name")


def enter(kubectl: Kubectl) -> None:
    """Let everybody into the logical cluster; what they may do there is another matter."""
    access = ("--clusterrole=system:kcp:workspace:access", "--group=system:authenticated")
    kubectl("create", "clusterrolebinding", "everybody-enters", *access)


def test_who_may_do_what(kubectl: Kubectl) -> None:
    """Roles and bindings made on the command line give a service account just what they say."""
    assert kubectl("auth", "can-i", "create", "configmaps") == "yes\n"
    enter(kubectl)
    somebody = ("--as=somebody", "--as-group=system:authenticated")
    done = kubectl.attempt("auth", "can-i", "create", "configmaps", *somebody)
    assert (done.returncode, done.stdout.split()[0]) == (1, "no")
    role = kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    assert role == "role.rbac.authorization.k8s.io/reader created\n"
    kubectl("create", "rolebinding", "somebody-reads", "--role=reader", "--user=somebody")
    assert kubectl("auth", "can-i", "list", "configmaps", *somebody) == "yes\n"
    table = kubectl("auth", "can-i", "--list", *somebody)
    assert re.search(r"configmaps +\[\] +\[\] +\[get list\]", table), table
    assert kubectl("get", "cm", *somebody)
    refusal = kubectl.fails("create", "cm", "x", *somebody)
    assert (
        'User "somebody" cannot create resource "configmaps" in API group "" in the namespace'
        ' "default"' in refusal
    )
    kubectl("create", "clusterrole", "all-reader", "--verb=get", "--resource=secrets")
    kubectl("create", "clusterrolebinding", "b", "--clusterrole=all-reader", "--user=somebody")
    assert kubectl("auth", "can-i", "get", "secrets", "-A", *somebody) == "yes\n"


def test_auth_reconcile(kubectl: Kubectl) -> None:
    role: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r", "namespace": "default"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
    }
    assert "reconciled" in kubectl("auth", "reconcile", "-f", "-", stdin=role)
    role["rules"][0]["verbs"] = ["list"]
    kubectl("auth", "reconcile", "-f", "-", stdin=role)
    assert len(kubectl.json("get", "role", "r")["rules"]) == 2


def test_whoami(kubectl: Kubectl) -> None:
    needs(kubectl, 28)
    who = kubectl.json("auth", "whoami")["status"]["userInfo"]
    assert "system:masters" in who["groups"]
    enter(kubectl)
    who = kubectl.json("auth", "whoami", "--as=somebody")["status"]["userInfo"]
    assert who["username"] == "somebody"


def test_token(kubectl: Kubectl) -> None:
    """A service account's token is good for its own logical cluster and its own rights."""
    needs(kubectl, 28)
    kubectl("create", "sa", "robot")
    token = kubectl("create", "token", "robot", "--duration=20m").strip()
    who = kubectl.json("auth", "whoami", f"--token={token}")["status"]["userInfo"]
    assert who["username"] == "system:serviceaccount:default:robot"
    refusal = kubectl.fails("get", "cm", f"--token={token}")
    assert 'User "system:serviceaccount:default:robot" cannot list resource' in refusal
    kubectl("create", "rolebinding", "b", "--clusterrole=view", "--serviceaccount=default:robot")
    assert kubectl("get", "cm", f"--token={token}")
    assert kubectl.fails("get", "secrets", f"--token={token}")


def test_token_elsewhere(kubectl: Kubectl, other_kubectl: Kubectl) -> None:
    """A token says nothing in another logical cluster, even about an account of the same name."""
    needs(kubectl, 28)
    for each in (kubectl, other_kubectl):
        each("create", "sa", "robot")
        each("create", "rolebinding", "b", "--clusterrole=view", "--serviceaccount=default:robot")
    token = kubectl("create", "token", "robot").strip()
    assert kubectl("get", "cm", f"--token={token}")
    assert other_kubectl.fails("get", "cm", f"--token={token}")


def test_raw(kubectl: Kubectl) -> None:
    """Any path, with any verb that kubectl has for it."""
    prefix = re.findall(r"server: https://[^/]+(/\S+)", kubectl.kubeconfig.read_text())[0]
    if kubectl.attempt("get", "--raw", f"{prefix}/version").returncode:
        prefix = ""  # newer ones start from the server's path in the kubeconfig
    maps = f"{prefix}/api/v1/namespaces/default/configmaps"
    assert json.loads(kubectl("get", "--raw", f"{prefix}/version"))["major"] == "1"
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert "readyz check passed" in kubectl("get", "--raw", "/readyz?verbose")
    assert "shard-level endpoint" in kubectl.fails("get", "--raw", f"{prefix}/metrics")
    assert "io.k8s.api.core.v1.ConfigMap" in kubectl("get", "--raw", f"{prefix}/openapi/v2")
    kubectl("create", "--raw", maps, "-f", "-", stdin=config_map("one", a="1"))
    kubectl("replace", "--raw", f"{maps}/one", "-f", "-", stdin=config_map("one", a="2"))
    assert json.loads(kubectl("get", "--raw", f"{maps}/one"))["data"] == {"a": "2"}
    kubectl("delete", "--raw", f"{maps}/one")
    assert kubectl.fails("get", "--raw", f"{maps}/one")
    assert "the server could not find the requested resource" in kubectl.fails(
        "get", "--raw", f"{prefix}/apis/nonsense"
    )


def test_events(kubectl: Kubectl) -> None:
    needs(kubectl, 28)
    kubectl("create", "cm", "one")
    uid = kubectl.json("get", "cm", "one")["metadata"]["uid"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "it-happened"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "one",
            "namespace": "default",
            "uid": uid,
        },
        "reason": "Happened",
        "message": "something did",
        "type": "Normal",
    }
    kubectl("create", "-f", "-", stdin=event)
    assert "something did" in kubectl("events", "--for=cm/one")
    assert "Happened" in kubectl("get", "events")


def test_admin_kubeconfig(
    shard: ServerProcess, kubectl_binary: str, tmp_path: pathlib.Path
) -> None:
    """The kubeconfig that the server writes works as it is: the README's first steps."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(shard.kubeconfig.read_bytes())
    kubectl = Kubectl(kubectl_binary, kubeconfig)
    name = f"readme-{kubectl.minor}"
    assert kubectl("config", "current-context") == "root\n"
    assert "+kcp-" in kubectl("version")
    assert kubectl("create", "ns", name) == f"namespace/{name} created\n"
    kubectl("create", "cm", "c", "-n", name, "--from-literal=a=b")
    assert kubectl.json("get", "cm", "c", "-n", name)["data"] == {"a": "b"}
    assert kubectl.json("get", "ns", name)["metadata"]["annotations"]["kcp.io/cluster"] == "root"
    assert name not in kubectl("get", "ns", "--context=system:admin")
    kubectl("delete", "ns", name)
    assert kubectl.fails("get", "ns", "--context=base"), (
        "kcp-admin may do nothing without a cluster"
    )


def test_logical_clusters_do_not_see_each_other(kubectl: Kubectl, other_kubectl: Kubectl) -> None:
    """The same names in two logical clusters are different things."""
    kubectl("create", "ns", "x")
    kubectl("create", "cm", "c", "-n", "x", "--from-literal=where=here")
    kubectl("create", "clusterrole", "only-here", "--verb=get", "--resource=configmaps")
    assert 'namespaces "x" not found' in other_kubectl.fails("get", "ns", "x")
    assert "not found" in other_kubectl.fails("get", "clusterrole", "only-here")
    other_kubectl("create", "ns", "x")
    other_kubectl("create", "cm", "c", "-n", "x", "--from-literal=where=there")
    here, there = (each.json("get", "cm", "c", "-n", "x") for each in (kubectl, other_kubectl))
    assert (here["data"]["where"], there["data"]["where"]) == ("here", "there")
    assert here["metadata"]["uid"] != there["metadata"]["uid"]
    clusters = [o["metadata"]["annotations"]["kcp.io/cluster"] for o in (here, there)]
    assert len(set(clusters)) == 2
    kubectl("delete", "ns", "x")
    assert other_kubectl.json("get", "cm", "c", "-n", "x")["data"] == {"where": "there"}


def test_plugins_are_found(kubectl: Kubectl, tmp_path: pathlib.Path) -> None:
    """Under both spellings: kubectl looks for a dash in a word as an underscore in a file name."""
    scripts = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]["scripts"]
    for name in scripts:
        if name.startswith("kubectl"):
            program = tmp_path / name
            program.write_text(
                f'#!/bin/sh\nexec {sys.executable} -m pykcp.cli.plugins {name} "$@"\n'
            )
            program.chmod(0o755)
    path = {**environment(), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for line, minor in (("create-workspace", 0), ("create workspace", 26), ("ws", 0), ("kcp", 0)):
        if kubectl.minor >= minor:
            assert "Usage:" in kubectl(*line.split(), "--help", **path)
