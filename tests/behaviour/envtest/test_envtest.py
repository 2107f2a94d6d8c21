"""The programs of `kcp envtest`, started as controller-runtime's envtest starts them."""

from __future__ import annotations

import base64
import hashlib
import pathlib
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import orjson
import pytest

from pykcp.auth.certificates import ensure_ca, ensure_signing_key, issue_client, issue_serving
from pykcp.testing.client import STRATEGIC, TestClient, eventually
from pykcp.testing.kubeconfig import Access
from pykcp.testing.server import environment
from pykcp.testing.sharded import free_ports

HOST = "127.0.0.1"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def write(path: pathlib.Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("envtest")


@pytest.fixture(scope="module")
def assets(folder: pathlib.Path) -> pathlib.Path:
    assets = folder / "assets"
    command = [sys.executable, "-m", "pykcp", "envtest", str(assets)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert f"KUBEBUILDER_ASSETS={assets}" in done.stdout
    return assets


@pytest.fixture(scope="module")
def masters(folder: pathlib.Path, assets: pathlib.Path) -> Iterator[TestClient]:
    """A running server, with the flags and certificates that envtest gives it."""
    now = time.time()
    certificates = folder / "certificates"
    certificates.mkdir()
    authority = ensure_ca(certificates, "ca", now)
    serving = issue_serving(authority, [HOST, "localhost"], now)
    write(certificates / "apiserver.crt", serving.certificate)
    write(certificates / "apiserver.key", serving.key)
    ensure_signing_key(certificates / "sa.key")
    port, etcd_port, peer_port = free_ports(3)
    etcd_url = f"http://{HOST}:{etcd_port}"
    flags = (
        "--advertise-address=127.0.0.1", "--allow-privileged=true", "--authorization-mode=RBAC",
        f"--bind-address={HOST}", f"--cert-dir={certificates}",
        f"--client-ca-file={certificates}/ca.crt", "--disable-admission-plugins=ServiceAccount",
        f"--etcd-servers={etcd_url}", f"--secure-port={port}",
        "--service-account-issuer=https://127.0.0.1/",
        f"--service-account-key-file={certificates}/sa.key",
        f"--service-account-signing-key-file={certificates}/sa.key",
        "--service-cluster-ip-range=10.0.0.0/24",
    )  # fmt: skip
    etcd_flags = (
        f"--listen-client-urls={etcd_url}", f"--advertise-client-urls={etcd_url}",
        f"--listen-peer-urls=http://{HOST}:{peer_port}", f"--data-dir={folder}/etcd",
        "--unsafe-no-fsync=true",
    )  # fmt: skip
    with (folder / "log").open("wb") as log:
        etcd = subprocess.Popen([assets / "etcd", *etcd_flags], env=environment(), stderr=log)
        server = subprocess.Popen(
            [assets / "kube-apiserver", *flags], env=environment(), stdout=log, stderr=log
        )
    pair = issue_client(authority, "admin", ["system:masters"], now)
    files = (
        write(certificates / "admin.crt", pair.certificate),
        write(certificates / "admin.key", pair.key),
    )
    access = Access(HOST, port, "", (certificates / "ca.crt").read_text(), "", files)
    client = TestClient(access)
    try:
        eventually(lambda: is_healthy(f"{etcd_url}/health"))
        eventually(lambda: is_ready(client), 60)
        yield client
    finally:
        client.close()
        for process in (server, etcd):
            process.terminate()
            process.wait(20)


def is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def is_ready(client: TestClient) -> bool:
    try:
        return client.get("/readyz").status == 200
    except OSError:
        return False


def deployment(name: str) -> dict[str, object]:
    labels = {"app": name}
    container = {"name": "web", "image": "web:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_a_cluster_at_the_root_of_the_url(masters: TestClient) -> None:
    names = {o["metadata"]["name"] for o in masters.get("/api/v1/namespaces").json["items"]}
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= names
    service = masters.get("/api/v1/namespaces/default/services/kubernetes").json
    assert service["spec"]["clusterIP"] == "10.0.0.1"
    assert masters.get("/version").json["gitVersion"].startswith("v1.")
    groups = {group["name"] for group in masters.get("/apis").json["groups"]}
    assert {"apps", "batch", "networking.k8s.io", "policy"} <= groups


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def test_objects_do_not_name_their_logical_cluster(masters: TestClient) -> None:
    """As kube-apiserver shows them: in answers to writes, reads, lists, tables and watches."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}}
    made = masters.post(CONFIG_MAPS, body)
    assert "annotations" not in made.json["metadata"]
    noted = {**body, "metadata": {"name": "plain", "annotations": {"note": "a"}}}
    assert masters.put(f"{CONFIG_MAPS}/plain", noted).json["metadata"]["annotations"] == {
        "note": "a"
    }
    assert masters.post(DEPLOYMENTS, deployment("plain")).status == 201
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    protobuf = {"Accept": "application/vnd.kubernetes.protobuf"}
    watched = "watch=true&timeoutSeconds=1"
    for path in (CONFIG_MAPS, DEPLOYMENTS):
        for headers in ({}, table, protobuf):
            for one in (f"{path}/plain", path, f"{path}?{watched}"):
                reply = masters.get(one, headers=headers)
                assert reply.status == 200, reply
                assert b"plain" in reply.body
                assert b"kcp.io/cluster" not in reply.body
    assert masters.delete(f"{DEPLOYMENTS}/plain").status == 200


def test_the_api_server_is_described(masters: TestClient) -> None:
    """Where it is and whose certificates it trusts, for components that look it up."""
    service = masters.get("/api/v1/namespaces/default/services/kubernetes").json
    assert service["spec"]["ports"][0]["targetPort"] == masters.access.port
    system = "/api/v1/namespaces/kube-system/configmaps"
    trusted = masters.get(f"{system}/extension-apiserver-authentication").json["data"]
    assert trusted["client-ca-file"] == masters.access.ca
    since = masters.get(f"{system}/kube-apiserver-legacy-service-account-token-tracking")
    assert len(since.json["data"]["since"]) == len("2026-01-01")
    endpoints = masters.get("/api/v1/namespaces/default/endpoints/kubernetes")
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    found = masters.get(slices, labelSelector="kubernetes.io/service-name=kubernetes").json["items"]
    assert len(found) == (1 if endpoints.status == 200 else 0)  # none without a network
    for one in found:
        assert one["ports"][0]["port"] == masters.access.port
        addresses = [where["ip"] for where in endpoints.json["subsets"][0]["addresses"]]
        assert one["endpoints"][0]["addresses"] == addresses


def test_kinds_and_fields_are_described(masters: TestClient) -> None:
    """Also where a single group's document is small enough to be made by the server itself."""
    kinds = {
        "api/v1": "Pod",
        "apis/apps/v1": "Deployment",
        "apis/scheduling.k8s.io/v1": "PriorityClass",
    }
    for name, kind in kinds.items():
        schemas = masters.get(f"/openapi/v3/{name}").json["components"]["schemas"]
        (found,) = (one for ref, one in schemas.items() if ref.rpartition(".")[2] == kind)
        assert found["description"]
        assert all(field.get("description") for field in found["properties"].values())


def test_definitions_are_those_of_users(masters: TestClient) -> None:
    """Kubernetes' own kinds are not among the definitions: not in lists, watches or deletions."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert masters.get(path).json["items"] == []
    assert masters.get(f"{path}/deployments.apps").status == 404
    assert masters.delete(f"{path}/deployments.apps").status == 404
    names = {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    body = {
        "metadata": {"name": "gears.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": names, "versions": [version],
        },
    }  # fmt: skip
    assert masters.post(path, body).status == 201
    listed = masters.get(path, limit=1).json
    assert [one["metadata"]["name"] for one in listed["items"]] == ["gears.example.com"]
    watched = masters.get(f"{path}?watch=true&timeoutSeconds=1").body
    assert b"gears.example.com" in watched
    assert b"deployments.apps" not in watched
    assert masters.delete(path).status == 200
    eventually(lambda: masters.get(path).json["items"] == [])
    assert masters.get(DEPLOYMENTS).status == 200


def test_workloads(masters: TestClient) -> None:
    made = masters.post(DEPLOYMENTS, deployment("web"))
    assert made.status == 201, made
    spec = made.json["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"]) == (1, 10)
    assert spec["template"]["metadata"]["labels"] == {"app": "web"}
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    scaled = masters.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 3}})
    assert scaled.status == 200, scaled
    status = {"status": {"replicas": 3, "conditions": [{"type": "Available", "status": "True"}]}}
    reported = masters.patch(f"{DEPLOYMENTS}/web/status", status)
    assert reported.json["status"]["replicas"] == 3, reported
    assert masters.get(f"{DEPLOYMENTS}/web").json["spec"]["replicas"] == 3
    assert masters.delete(f"{DEPLOYMENTS}/web").status == 200


@pytest.mark.parametrize(
    ("plural", "field", "rolling"),
    [
        ("deployments", "strategy", {"maxSurge": "25%", "maxUnavailable": "25%"}),
        ("daemonsets", "updateStrategy", {"maxSurge": 0, "maxUnavailable": 1}),
        ("statefulsets", "updateStrategy", {"partition": 0}),
    ],
)
def test_rolling_updates(
    masters: TestClient, plural: str, field: str, rolling: dict[str, object]
) -> None:
    """Clients in Go write an empty strategy; Kubernetes' controllers rely on its defaults."""
    kinds = {"deployments": "Deployment", "daemonsets": "DaemonSet", "statefulsets": "StatefulSet"}
    path = f"/apis/apps/v1/namespaces/default/{plural}?dryRun=All"
    body = {**deployment("rolling"), "kind": kinds[plural]}
    for given in ({}, {"rollingUpdate": None}, {"rollingUpdate": {}}):
        made = masters.post(path, {**body, "spec": {**body["spec"], field: given}})
        assert made.status == 201, made
        assert made.json["spec"][field] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    other = {"type": "Recreate" if plural == "deployments" else "OnDelete"}
    made = masters.post(path, {**body, "spec": {**body["spec"], field: other}})
    assert made.json["spec"][field] == other


def test_containers_are_merged_by_name(masters: TestClient) -> None:
    """By server-side apply and by strategic merge patches, as in Kubernetes."""
    masters.post(DEPLOYMENTS, deployment("merged"))
    container = {"name": "side", "image": "side:1"}
    applied = {**deployment("merged"), "spec": {"template": {"spec": {"containers": [container]}}}}
    reply = masters.patch(
        f"{DEPLOYMENTS}/merged",
        applied,
        "application/apply-patch+yaml",
        fieldManager="test",
    )
    assert reply.status == 200, reply
    found = reply.json["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in found] == ["web", "side"]
    changed = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}
    reply = masters.patch(f"{DEPLOYMENTS}/merged", changed, STRATEGIC)
    found = reply.json["spec"]["template"]["spec"]["containers"]
    assert [one["image"] for one in found] == ["web:2", "side:1"]


def test_the_roles_of_every_cluster(masters: TestClient) -> None:
    """Kubernetes' default roles and bindings are objects here, and kcp's are not."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for role in ("cluster-admin", "admin", "edit", "view", "system:discovery"):
        found = masters.get(f"{rbac}/clusterroles/{role}")
        assert found.status == 200, found
        assert found.json["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        assert found.json["rules"]
    binding = masters.get(f"{rbac}/clusterrolebindings/cluster-admin").json
    assert [subject["name"] for subject in binding["subjects"]] == ["system:masters"]
    leaders = f"{rbac}/namespaces/kube-system/roles/system::leader-locking-kube-scheduler"
    assert masters.get(leaders).status == 200
    bootstrapper = "system:kcp:tenancy:workspace-bootstrapper"
    assert masters.get(f"{rbac}/clusterroles/{bootstrapper}").status == 404


def test_workloads_have_no_other_subresources(masters: TestClient) -> None:
    """A path that does not exist: clients must not take it for an object that does not exist."""
    assert masters.post(DEPLOYMENTS, deployment("paths")).status == 201
    for path in (f"{DEPLOYMENTS}/paths/other", "/api/v1/namespaces/default/pods/none/scale"):
        missing = masters.get(path)
        assert missing.status == 404
        assert missing.json["message"] == "the server could not find the requested resource"
    assert masters.post(f"{DEPLOYMENTS}/paths", deployment("paths")).status == 405
    assert masters.delete(f"{DEPLOYMENTS}/paths").status == 200


def test_bad_objects(masters: TestClient) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}
    bad = masters.post("/api/v1/namespaces/default/pods", pod)
    assert bad.status == 422
    assert "spec.containers" in bad.json["message"]


def test_users_need_rbac_only(masters: TestClient, folder: pathlib.Path) -> None:
    authority = ensure_ca(folder / "certificates", "ca", time.time())
    pair = issue_client(authority, "jane", ["developers"], time.time())
    files = (
        write(folder / "jane.crt", pair.certificate),
        write(folder / "jane.key", pair.key),
    )
    jane = masters.with_certificate(files)
    assert jane.get("/api/v1/namespaces/default/pods").status == 403
    role = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    masters.post(f"{role}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    group = "rbac.authorization.k8s.io"
    masters.post(
        f"{role}/rolebindings",
        {
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": group, "kind": "Group", "name": "developers"}],
        },
    )
    eventually(lambda: jane.get("/api/v1/namespaces/default/pods").status == 200)
    jane.close()


def test_help(assets: pathlib.Path) -> None:
    done = subprocess.run(
        [assets / "kube-apiserver", "--help"], env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0


def test_nothing_but_the_server_creates_or_deletes(masters: TestClient) -> None:
    """As with kube-apiserver alone: no default accounts, no garbage collection, protected claims."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bare"}}
    assert masters.post("/api/v1/namespaces", namespace).status == 201
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "missing", "uid": "1-2-3"}
    owned = {"name": "owned", "ownerReferences": [owner]}
    objects = "/api/v1/namespaces/bare/configmaps"
    assert masters.post(objects, {"metadata": owned}).status == 201
    account = {"metadata": {"name": "default"}}
    assert masters.post("/api/v1/namespaces/bare/serviceaccounts", account).status == 201
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    claim = {**kind, "metadata": {"name": "claim"}, "spec": spec}
    made = masters.post("/api/v1/namespaces/bare/persistentvolumeclaims", claim).json
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    attributes = {"metadata": {"name": "fast"}, "driverName": "a.b", "parameters": {"a": "b"}}
    made = masters.post("/apis/storage.k8s.io/v1/volumeattributesclasses", attributes).json
    assert made["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
    assert [one["metadata"]["name"] for one in masters.get(objects).json["items"]] == ["owned"]


def test_the_range_of_services_is_an_object(masters: TestClient) -> None:
    found = masters.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").json
    assert found["spec"] == {"cidrs": ["10.0.0.0/24"]}
    (ready,) = found["status"]["conditions"]
    assert (ready["type"], ready["status"]) == ("Ready", "True")


def test_hashes_of_storage_versions_are_those_of_kube_apiserver(masters: TestClient) -> None:
    """Of group, version and kind alone, for kinds of all sorts."""
    for path, name, text in (
        ("/api/v1", "configmaps", "/v1/ConfigMap"),
        ("/api/v1", "pods", "/v1/Pod"),
        ("/apis/apps/v1", "deployments", "apps/v1/Deployment"),
        ("/apis/autoscaling/v1", "horizontalpodautoscalers", "autoscaling/v2/HorizontalPodAutoscaler"),
    ):  # fmt: skip
        (found,) = (one for one in masters.get(path).json["resources"] if one["name"] == name)
        short = hashlib.sha256(text.encode()).digest()[:8]
        assert found["storageVersionHash"] == base64.b64encode(short).decode()


def test_kinds_need_not_be_named(masters: TestClient) -> None:
    """Typed clients leave `kind` and `apiVersion` out; a text is read in one pass, as by Go."""
    body = deployment("nameless")
    del body["kind"], body["apiVersion"]
    assert masters.post(DEPLOYMENTS, body).json["kind"] == "Deployment"
    text = orjson.dumps(deployment("twice")).replace(
        b'"spec":{"selector"', b'"spec":{"other":1,"replicas":1,"replicas":2,"selector"'
    )
    refused = masters.request(
        "POST", f"{DEPLOYMENTS}?fieldValidation=Strict", text, "application/json"
    )
    assert refused.json["message"] == (
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: '
        'unknown field "spec.other", duplicate field "spec.replicas"'
    )
    broken = text.replace(b'"name":"twice"', b'"name":"broken","labels":{"a":"\xff"}')
    warned = masters.request("POST", DEPLOYMENTS, broken, "application/json")
    assert (warned.status, warned.json["reason"]) == (422, "Invalid")
    array = [{"op": "replace", "path": "", "value": []}]
    path = f"{DEPLOYMENTS}/nameless"
    assert masters.patch(path, array, "application/json-patch+json").status in (400, 422)
    path = "/api/v1/namespaces/default/configmaps"
    assert masters.post(path, {"metadata": {"name": "array"}}).status == 201
    assert masters.patch(f"{path}/array", array, "application/json-patch+json").status in (400, 422)
