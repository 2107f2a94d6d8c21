"""Objects in a cluster become Secrets, Deployments and Services, and say how they are."""

from __future__ import annotations

import base64
import json
import pathlib
import urllib.request

import pytest
from tests.behaviour.operator.conftest import ETCD, OF_ROOT, ROOT
from tests.behaviour.operator.program import OperatorNamespace, OperatorProcess

from pykcp.testing.client import eventually
from pykcp.testing.multicluster.downstream import PhysicalCluster, own_cluster
from pykcp.testing.programs import kcp
from pykcp.types import Object


def _installation(namespace: OperatorNamespace) -> None:
    namespace.create("RootShard", "root", **ROOT)
    namespace.create("Shard", "alpha", **OF_ROOT, **ETCD)
    namespace.create("FrontProxy", "frontproxy", **OF_ROOT)
    namespace.create(
        "Kubeconfig",
        "admin",
        target={"frontProxyRef": {"name": "frontproxy"}},
        username="kcp-admin",
        groups=["system:kcp:admin"],
        validity="8766h",
        secretRef={"name": "admin-kubeconfig"},
    )


def _container(deployment: Object) -> Object:
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_an_installation_becomes_objects_of_the_names_that_kcp_has(
    namespace: OperatorNamespace,
) -> None:
    _installation(namespace)
    for name in ("root-kcp", "root-proxy", "alpha-shard-kcp", "frontproxy-front-proxy"):
        deployment = eventually(lambda name=name: namespace.deployment(name), 60)
        assert deployment["spec"]["replicas"] == 2
        assert deployment["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "kcp-operator"
        (owner,) = deployment["metadata"]["ownerReferences"]
        assert owner["apiVersion"] == "operator.kcp.io/v1alpha1"
        service = eventually(lambda name=name: namespace.service(name))
        assert service["spec"]["ports"][0]["targetPort"] == 6443
    for name in (
        "root-ca", "root-server-ca", "root-client-ca", "root-requestheader-client-ca",
        "root-service-account-ca", "root-server", "alpha-server", "root-frontproxy-server",
        "root-frontproxy-kubeconfig", "root-frontproxy-requestheader", "root-proxy-server",
        "alpha-mounts-proxy", "root-kcp-operator", "kubeconfig-cert-admin", "admin-kubeconfig",
        "root-logical-cluster-admin-kubeconfig", "alpha-client-kubeconfig",
        "root-frontproxy-dynamic-kubeconfig", "frontproxy-merged-client-ca",
    ):  # fmt: skip
        assert eventually(lambda name=name: namespace.secret(name)), name
    assert eventually(lambda: namespace.config_map("frontproxy-config"))["data"][
        "path-mapping.yaml"
    ]
    words = _container(namespace.deployment("alpha-shard-kcp"))["args"]
    assert "--shard-name=alpha" in words
    url = f"https://alpha-shard-kcp.{namespace.name}.svc.cluster.local:6443"
    assert f"--shard-base-url={url}" in words
    # No private key of an authority is in reach of a program.
    for name in ("root-kcp", "frontproxy-front-proxy"):
        volumes = namespace.deployment(name)["spec"]["template"]["spec"]["volumes"]
        sources = [
            one for volume in volumes for one in volume.get("projected", {}).get("sources", ())
        ]
        secrets = {one["secret"]["name"] for one in sources if "secret" in one}
        assert "root-trust" in secrets
        assert not {one for one in secrets if one.startswith("root-") and one.endswith("-ca")}


def test_a_kubeconfig_is_owned_and_works_for_the_proxy(namespace: OperatorNamespace) -> None:
    _installation(namespace)
    secret = eventually(lambda: namespace.secret("admin-kubeconfig"), 60)
    assert secret["metadata"]["ownerReferences"][0]["kind"] == "Kubeconfig"
    certificate = namespace.secret("kubeconfig-cert-admin")
    assert certificate["metadata"]["ownerReferences"][0]["kind"] == "Kubeconfig"
    config = json.loads(base64.b64decode(secret["data"]["kubeconfig"]))
    assert (
        config["clusters"][0]["cluster"]["server"] == "https://api.example.com:6443/clusters/root"
    )
    eventually(lambda: namespace.phase("Kubeconfig", "admin") == "Ready")
    assert namespace.condition("Kubeconfig", "admin", "Available")["reason"] == "SecretsReady"
    assert namespace.get("Kubeconfig", "admin")["status"]["targetName"] == "FrontProxy/frontproxy"


def test_phases_follow_what_runs_both_ways(namespace: OperatorNamespace) -> None:
    _installation(namespace)
    eventually(lambda: namespace.phase("Shard", "alpha") == "Provisioning", 60)
    namespace.roll_out("alpha-shard-kcp")
    eventually(lambda: namespace.phase("Shard", "alpha") == "Running")
    assert namespace.condition("Shard", "alpha", "Available")["reason"] == "ReplicasUp"
    assert namespace.condition("Shard", "alpha", "RootShard")["reason"] == "Valid"
    namespace.roll_out("alpha-shard-kcp", ready=1)
    eventually(lambda: namespace.phase("Shard", "alpha") == "Provisioning")
    available = namespace.condition("Shard", "alpha", "Available")
    assert available["reason"] == "ReplicasUnavailable"
    assert "1 of 2" in available["message"]
    assert [one["name"] for one in namespace.get("RootShard", "root")["status"]["shards"]] == [
        "alpha"
    ]


def test_what_is_missing_is_named_and_found_when_it_comes(namespace: OperatorNamespace) -> None:
    namespace.create("Shard", "alpha", **OF_ROOT, **ETCD)
    eventually(lambda: namespace.condition("Shard", "alpha", "RootShard"), 60)
    condition = namespace.condition("Shard", "alpha", "RootShard")
    assert (condition["status"], condition["reason"]) == ("False", "InvalidReference")
    assert 'RootShard "root" does not exist' in condition["message"]
    tls = {"etcd": {**ROOT["etcd"], "tlsConfig": {"secretRef": {"name": "etcd-client"}}}}  # type: ignore[dict-item]
    namespace.create("RootShard", "root", **{**ROOT, **tls})
    eventually(lambda: "etcd-client" in namespace.condition("RootShard", "root", "Available").get("message", ""))  # fmt: skip
    assert not namespace.deployment("root-kcp")
    data = {key: base64.b64encode(b"x").decode() for key in ("tls.crt", "tls.key", "ca.crt")}
    path = f"/api/v1/namespaces/{namespace.name}/secrets"
    assert (
        namespace.client.post(path, {"metadata": {"name": "etcd-client"}, "data": data}).status
        == 201
    )
    eventually(lambda: namespace.deployment("root-kcp"))
    eventually(lambda: namespace.condition("Shard", "alpha", "RootShard")["status"] == "True")


def test_manual_changes_are_reverted_and_an_autoscaler_may_own_the_replicas(
    namespace: OperatorNamespace,
) -> None:
    namespace.create("RootShard", "root", **ROOT)
    eventually(lambda: namespace.deployment("root-kcp"), 60)
    path = f"/apis/apps/v1/namespaces/{namespace.name}/deployments/root-kcp"
    patch = {"spec": {"replicas": 5}}
    assert namespace.client.patch(path, patch).status == 200
    container = {"name": "rootshard", "args": ["start", "--changed"]}
    strategic = "application/strategic-merge-patch+json"
    changed = namespace.client.patch(
        path, {"spec": {"template": {"spec": {"containers": [container]}}}}, strategic
    )
    assert changed.status == 200, changed
    eventually(lambda: "--changed" not in _container(namespace.deployment("root-kcp"))["args"])
    assert namespace.deployment("root-kcp")["spec"]["replicas"] == 5


def test_services_and_claims_are_restored(namespace: OperatorNamespace) -> None:
    namespace.create(
        "RootShard", "root", **{key: value for key, value in ROOT.items() if key != "etcd"}
    )
    service = eventually(lambda: namespace.service("root-kcp"), 60)
    claim = eventually(lambda: namespace.claim("root-kcp-data"))
    path = f"/api/v1/namespaces/{namespace.name}/services/root-kcp"
    changed = {"spec": {"selector": {"app.kubernetes.io/instance": "other"}}}
    assert namespace.client.patch(path, changed).status == 200
    eventually(
        lambda: namespace.service("root-kcp")["spec"]["selector"] == service["spec"]["selector"]
    )
    namespace.client.drop()
    assert namespace.client.delete(path).status == 200
    eventually(lambda: namespace.service("root-kcp").get("spec"))
    assert namespace.service("root-kcp")["metadata"]["uid"] != service["metadata"]["uid"]
    path = f"/api/v1/namespaces/{namespace.name}/persistentvolumeclaims/root-kcp-data"
    namespace.client.patch(path, {"metadata": {"finalizers": None}})
    namespace.client.delete(path)
    uid = claim["metadata"]["uid"]
    eventually(lambda: namespace.claim("root-kcp-data").get("metadata", {}).get("uid", uid) != uid)


def test_a_condition_quotes_the_program_that_does_not_start(namespace: OperatorNamespace) -> None:
    namespace.create("RootShard", "root", **ROOT)
    eventually(lambda: namespace.deployment("root-kcp"), 60)
    ended = {"exitCode": 1, "reason": "Error", "message": "error: etcd is not reachable\n"}
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off"}
    status = {
        "name": "main", "ready": False, "restartCount": 3, "image": "", "imageID": "",
        "state": {"waiting": waiting}, "lastState": {"terminated": ended},
    }  # fmt: skip
    namespace.create_pod("root-kcp", "root-kcp-0", {"containerStatuses": [status]})
    namespace.roll_out("root-kcp", ready=0)
    eventually(
        lambda: (
            "pod root-kcp-0: main: ended with exit code 1: error: etcd is not reachable"
            in namespace.condition("RootShard", "root", "Available").get("message", "")
        )
    )


def test_what_the_server_refuses_is_said_and_does_not_hold_up_others(
    namespace: OperatorNamespace,
) -> None:
    mounts = [{"name": "absent", "mountPath": "/absent"}]
    namespace.create("RootShard", "root", **ROOT, extraVolumeMounts=mounts)
    namespace.create("Shard", "alpha", **OF_ROOT, **ETCD)
    eventually(lambda: namespace.deployment("alpha-shard-kcp"), 60)
    eventually(
        lambda: "volumeMounts" in namespace.condition("RootShard", "root", "Available").get("message", "")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("RootShard", {**ROOT, "external": {"hostname": "a"}}, "spec.external.port"),
        ("RootShard", {**ROOT, "replicas": 2, "etcd": None}, "more than one replica requires etcd"),
        ("CacheServer", {"certificates": {}, "replicas": 2}, "more than one replica requires etcd"),
        (
            "FrontProxy",
            {**OF_ROOT, "auth": {"oidc": {"issuerURL": "https://a", "clientID": "b"}}},
            "auth.oidc requires auth.serviceAccount.enabled",
        ),
        (
            "FrontProxy",
            {**OF_ROOT, "externalHostname": "a", "external": {"hostname": "b", "port": 1}},
            "externalHostname and external.hostname are mutually exclusive",
        ),
        ("Shard", {**ETCD}, "spec.rootShard"),
        (
            "VirtualWorkspace",
            {"target": {}, "external": {"hostname": "a", "port": 1}},
            "exactly one of rootShardRef and shardRef must be set",
        ),
    ],
)
def test_a_wrong_manifest_is_refused_with_the_field(
    cluster: PhysicalCluster,
    operator: OperatorProcess,
    kind: str,
    spec: Object,
    field: str,
) -> None:
    name = {"RootShard": "rootshards", "CacheServer": "cacheservers", "FrontProxy": "frontproxies"}
    plural = name.get(kind, f"{kind.lower()}s")
    obj = {
        "apiVersion": "operator.kcp.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "a"},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }
    path = f"/apis/operator.kcp.io/v1alpha1/namespaces/default/{plural}"
    refused = cluster.client.post(path, obj)
    assert refused.status == 422, refused
    assert field in refused.json["message"]


def test_names_that_others_need_are_refused(namespace: OperatorNamespace) -> None:
    namespace.create("RootShard", "root", **ROOT)
    named = {"metadata": {"name": "root"}, "spec": {**OF_ROOT, **ETCD}}
    obj = {"apiVersion": "operator.kcp.io/v1alpha1", "kind": "Shard", **named}
    refused = namespace.client.post(namespace.collection("Shard"), obj)
    assert refused.status == 422, refused
    assert 'a Shard cannot be called "root"' in refused.json["message"]
    key = eventually(lambda: namespace.secret("root-server"), 60)["data"]["tls.key"]
    namespace.create("CacheServer", "root", certificates={})
    condition = eventually(lambda: namespace.condition("CacheServer", "root", "Available"))
    assert condition["reason"] == "NameConflict"
    assert 'RootShard "root" has this name' in condition["message"]
    assert namespace.secret("root-server")["data"]["tls.key"] == key


def test_health_and_metrics(operator: OperatorProcess, namespace: OperatorNamespace) -> None:
    namespace.create("RootShard", "root", **ROOT)
    eventually(lambda: namespace.phase("RootShard", "root"), 60)
    for path in ("healthz", "readyz"):
        with urllib.request.urlopen(f"http://127.0.0.1:{operator.health}/{path}") as answer:
            assert answer.read() == b"ok"
    wanted = f'kcp_operator_rootshard_count{{phase="Provisioning",namespace="{namespace.name}"}} 1'

    def exposition() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{operator.metrics}/metrics") as answer:
            return str(answer.read().decode())

    eventually(lambda: wanted in exposition())
    assert "kcp_operator_reconciliation_duration_seconds_bucket" in exposition()
    assert "kcp_operator_certificate_expiration_timestamp_seconds" in exposition()


def test_nothing_is_written_when_nothing_changes(namespace: OperatorNamespace) -> None:
    _installation(namespace)
    eventually(lambda: namespace.phase("Kubeconfig", "admin") == "Ready", 60)
    eventually(lambda: namespace.deployment("frontproxy-front-proxy"))

    def versions() -> dict[str, str]:
        return {
            name: namespace.secret(name)["metadata"]["resourceVersion"]
            for name in ("root-server", "alpha-server", "admin-kubeconfig", "root-ca")
        }

    before = versions()
    # Any change of a Secret makes the operator look at the namespace again.
    path = f"/api/v1/namespaces/{namespace.name}/secrets"
    namespace.client.post(path, {"metadata": {"name": "unrelated"}})
    namespace.create("Shard", "beta", **OF_ROOT, **ETCD)
    eventually(lambda: namespace.deployment("beta-shard-kcp"))
    assert versions() == before


def test_keys_are_kept_while_an_object_cannot_be_configured(namespace: OperatorNamespace) -> None:
    _installation(namespace)
    eventually(lambda: namespace.deployment("alpha-shard-kcp"), 60)
    key = namespace.secret("alpha-service-account")["data"]["tls.key"]
    path = f"{namespace.collection('Shard')}/alpha"
    patch = {"spec": {"cache": {"ref": {"name": "absent"}}, "caBundleSecretRef": None}}
    assert namespace.client.patch(path, patch).status == 200
    eventually(lambda: namespace.condition("Shard", "alpha", "Available").get("reason") == "InputMissing")  # fmt: skip
    assert namespace.client.patch(path, {"spec": {"cache": None}}).status == 200
    eventually(lambda: namespace.condition("Shard", "alpha", "Available").get("reason") != "InputMissing")  # fmt: skip
    assert namespace.secret("alpha-service-account")["data"]["tls.key"] == key


def test_what_is_not_needed_any_more_is_deleted(namespace: OperatorNamespace) -> None:
    data = {"tls.crt": base64.b64encode(b"extra").decode()}
    secrets = f"/api/v1/namespaces/{namespace.name}/secrets"
    namespace.client.post(secrets, {"metadata": {"name": "extra"}, "data": data})
    namespace.create("RootShard", "root", **ROOT, clientCABundleRef={"name": "extra"})
    eventually(lambda: namespace.secret("root-merged-client-ca"), 60)
    path = f"{namespace.collection('RootShard')}/root"
    assert namespace.client.patch(path, {"spec": {"clientCABundleRef": None}}).status == 200
    eventually(lambda: not namespace.secret("root-merged-client-ca"))
    assert namespace.secret("extra")  # the user's own


def test_two_processes_share_the_work(tmp_path: pathlib.Path) -> None:
    """One makes Secrets and statuses, the other Deployments, on a server of their own."""
    flags = ("--install-crds", "--leader-elect", "--lease-duration=3s")
    with own_cluster("groups", tmp_path) as cluster:
        config = OperatorProcess(cluster, tmp_path, *flags, "--enabled-controller-groups=config")
        workload = OperatorProcess(
            cluster, tmp_path, *flags, "--enabled-controller-groups=workload"
        )
        with config:
            path = "/apis/operator.kcp.io/v1alpha1/rootshards"
            eventually(lambda: cluster.client.get(path).status == 200, 60)
            namespace = OperatorNamespace(cluster.client, "split")
            namespace.create("RootShard", "root", **ROOT)
            eventually(lambda: namespace.phase("RootShard", "root") == "Provisioning", 60)
            assert namespace.secret("root-server")
            assert not namespace.deployment("root-kcp")
            with workload:
                eventually(lambda: namespace.deployment("root-kcp"), 60)
                namespace.roll_out("root-kcp")
                namespace.roll_out("root-proxy")
                eventually(lambda: namespace.phase("RootShard", "root") == "Running", 60)


@pytest.mark.parametrize(
    ("given", "problem"),
    [("", "must name at least one of config, workload"), ("all", 'unknown controller group "all"')],
)
def test_groups_that_do_not_exist_are_refused(
    cluster: PhysicalCluster, given: str, problem: str
) -> None:
    words = (f"--kubeconfig={cluster.kubeconfig}", f"--enabled-controller-groups={given}")
    code, text = kcp("operator", *words)
    assert code == 1
    assert problem in text
