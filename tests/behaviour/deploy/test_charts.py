"""The charts: they make what Kubernetes and the programs accept, and install with real Helm."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
from collections.abc import Iterator

import pytest
import yaml
from tests.behaviour.deploy.helm import CHARTS, HELM, helm, only, template

from pykcp.programs.front_proxy.settings import FrontProxySettings
from pykcp.programs.operator.cluster.settings import OperatorSettings
from pykcp.programs.operator.kinds.definitions import definitions_text
from pykcp.programs.shard.settings import ShardSettings
from pykcp.testing.client import eventually
from pykcp.testing.multicluster.downstream import PhysicalCluster, own_cluster
from pykcp.types import Object

ROOT = pathlib.Path(__file__).parents[3]
needs_helm = pytest.mark.skipif(HELM is None, reason="Helm is not installed")
HOST = "--set=externalHostname=api.example.com"
EVERYTHING: Object = {
    "externalHostname": "api.example.com",
    "externalPort": "6443",
    "global": {"imagePullSecrets": ["pull", {"name": "other"}]},
    "etcd": {
        "profiling": {"enabled": True},
        "storageClassName": "fast",
        "podDisruptionBudget": {"enabled": True},
        "monitoring": {"serviceMonitor": {"enabled": True}},
    },
    "kcp": {
        "extraFlags": ["--feature-gates=WorkspaceMounts=true"],
        "profiling": {"enabled": True},
        "tokenAuth": {"enabled": True, "config": "token,user,uid"},
        "authorization": {"webhook": {"secretName": "hook"}},
        "hostAliases": {"enabled": True, "values": [{"ip": "10.0.0.1", "hostnames": ["a"]}]},
        "homeWorkspaces": {"enabled": True},
        "monitoring": {"serviceMonitor": {"enabled": True}},
        "podDisruptionBudget": {"enabled": True},
    },
    "kcpFrontProxy": {
        "service": {"type": "LoadBalancer", "nodePort": 30000, "annotations": {"a": "b"}},
        "ingress": {"enabled": True},
        "gateway": {"enabled": True, "className": "gateway"},
        "openshiftRoute": {"enabled": True},
        "certificateIssuer": {"name": "letsencrypt", "kind": "ClusterIssuer"},
        "extraDNSNames": ["other.example.com"],
        "additionalPathMappings": [{"path": "/services/mine", "backend": "https://mine"}],
        "monitoring": {"serviceMonitor": {"enabled": True}},
        "podDisruptionBudget": {"enabled": True},
    },
    "oidc": {"enabled": True, "issuerUrl": "https://auth", "clientId": "kcp", "caSecretName": "ca"},
    "audit": {"enabled": True},
    "letsEncrypt": {"staging": {"enabled": True, "email": "a@example.com"}},
    "development": {
        "rootIdentities": {"enabled": True, "identities": [{"export": "a", "identity": "b"}]}
    },
    "networkPolicy": {"enabled": True},
    "monitoring": {"alerts": {"enabled": True}, "dashboard": {"enabled": True}},
}
"""Every switch of the chart is on."""


def _words(objects: list[Object], name: str) -> list[str]:
    deployment = only(objects, "Deployment", name)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return [*container["command"][1:], *container["args"]]


@needs_helm
@pytest.mark.parametrize("chart", ["kcp", "kcp-operator"])
def test_charts_pass_helms_own_check(chart: str) -> None:
    helm("lint", "--strict", str(CHARTS / chart), HOST)


@needs_helm
@pytest.mark.parametrize("values", [{"externalHostname": "api.example.com"}, EVERYTHING])
def test_command_lines_of_the_chart_are_accepted(values: Object, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    objects = template("kcp", f"--values={file}")
    start, *words = _words(objects, "test-kcp")
    assert start == "start"
    shard, _ = ShardSettings.parse(words)
    assert shard.shard.shard_external_url.startswith("https://api.example.com:")
    FrontProxySettings.parse(_words(objects, "test-kcp-front-proxy"))
    mapping = only(objects, "ConfigMap", "test-kcp-front-proxy-config")
    entries = yaml.safe_load(mapping["data"]["path-mapping.yaml"])
    assert [one["path"] for one in entries][:3] == ["/services/", "/clusters/", "/"]
    _check_mounts(objects)


def _check_mounts(objects: list[Object]) -> None:
    """Every file that a flag names is below a mount, and every mount has its volume."""
    for obj in objects:
        if obj["kind"] not in ("Deployment", "StatefulSet"):
            continue
        spec = obj["spec"]["template"]["spec"]
        claims = obj["spec"].get("volumeClaimTemplates") or ()
        volumes = {one["name"] for one in spec["volumes"]}
        volumes |= {one["metadata"]["name"] for one in claims}
        for container in spec["containers"]:
            mounts = container["volumeMounts"]
            assert {one["name"] for one in mounts} <= volumes
            paths = tuple(one["mountPath"] for one in mounts)
            for word in container["args"]:
                value = word.partition("=")[2]
                if value.startswith("/") and "path" not in word.partition("=")[0]:
                    assert value.startswith(paths), word


@needs_helm
def test_metrics_are_scraped_where_they_are_served() -> None:
    """The same path with a workspace in it answers 501."""
    switches = (
        "--set=kcp.monitoring.serviceMonitor.enabled=true",
        "--set=kcpFrontProxy.monitoring.serviceMonitor.enabled=true",
    )
    monitors = [o for o in template("kcp", HOST, *switches) if o["kind"] == "ServiceMonitor"]
    assert len(monitors) == 2
    assert all(e["path"] == "/metrics" for one in monitors for e in one["spec"]["endpoints"])


@needs_helm
def test_every_server_is_scraped_once() -> None:
    """The two Services of the server are for the same pods."""
    parts = ("kcp", "kcpFrontProxy", "etcd")
    objects = template("kcp", HOST, *(f"--set={p}.monitoring.serviceMonitor.enabled=true" for p in parts))  # fmt: skip
    services = [one for one in objects if one["kind"] == "Service"]
    monitors = [one for one in objects if one["kind"] == "ServiceMonitor"]
    assert len(monitors) == 3
    for monitor in monitors:
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        ports = {one["port"] for one in monitor["spec"]["endpoints"]}
        matching = [
            one["metadata"]["name"]
            for one in services
            if wanted <= one["metadata"]["labels"].items()
            and ports & {port["name"] for port in one["spec"]["ports"]}
        ]
        assert matching == [monitor["metadata"]["name"]]


@needs_helm
def test_a_front_proxy_with_a_foreign_certificate_is_believed() -> None:
    issuer = "kcpFrontProxy.certificateIssuer"
    given = {"name": "le", "kind": "ClusterIssuer", "secret.name": "le-ca", "secret.key": "root.crt"}  # fmt: skip
    objects = template("kcp", HOST, *(f"--set={issuer}.{key}={value}" for key, value in given.items()))  # fmt: skip
    named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    certificate = named["Certificate", "test-kcp-front-proxy-server"]["spec"]
    assert certificate["issuerRef"] == {"name": "le", "kind": "ClusterIssuer"}
    assert certificate["dnsNames"] == [HOST.partition("=")[2].partition("=")[2]]
    config = yaml.safe_load(
        named["Secret", "test-kcp-kubeconfigs"]["stringData"]["external.kubeconfig"]
    )
    authority = config["clusters"][0]["cluster"]["certificate-authority"]
    assert authority == "/etc/kcp/tls/front-proxy-ca/root.crt"
    pod = named["Deployment", "test-kcp"]["spec"]["template"]["spec"]
    volumes = {one["name"]: one for one in pod["volumes"]}
    (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["mountPath"] == "/etc/kcp/tls/front-proxy-ca"]  # fmt: skip
    assert volumes[mount["name"]]["secret"]["secretName"] == "le-ca"


@needs_helm
def test_a_hostname_is_required() -> None:
    with pytest.raises(AssertionError, match="externalHostname is required"):
        template("kcp")


def _page_of_installation() -> tuple[list[str], Object]:
    """The values that docs/start/install.md sets, and its certificate for an administrator."""
    page = (ROOT / "docs/start/install.md").read_text().replace("\\\n", " ")
    (command,) = re.findall(r"^\$ helm install kcp deploy/charts/kcp (.*)$", page, re.MULTILINE)
    (certificate,) = re.findall(r"^```yaml admin.yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return shlex.split(command), yaml.safe_load(certificate)


def test_the_page_of_installation_sets_values_of_the_chart() -> None:
    """Among them those that are required."""
    values = yaml.safe_load((CHARTS / "kcp/values.yaml").read_text())
    words, _ = _page_of_installation()
    given = [words[i + 1].partition("=") for i, word in enumerate(words) if word == "--set"]
    for path, _, value in given:
        at = values
        for part in path.split("."):
            assert part in at, path
            at = at[part]
        assert value
    helpers = (CHARTS / "kcp/templates/_helpers.tpl").read_text()
    required = re.findall(r'required "[^"]*" \.Values\.(\w+) ', helpers)
    assert required == ["externalHostname"]
    assert set(required) <= {path for path, _, _ in given}


@needs_helm
def test_the_command_of_the_page_of_installation() -> None:
    words, certificate = _page_of_installation()
    assert words[:3] == ["--namespace", "kcp", "--create-namespace"]
    text = helm("template", "kcp", str(CHARTS / "kcp"), *words)
    objects = [one for one in yaml.safe_load_all(text) if one]
    assert only(objects, "Issuer", certificate["spec"]["issuerRef"]["name"])
    (port,) = only(objects, "Service", "kcp-front-proxy")["spec"]["ports"]
    page = (ROOT / "docs/start/install.md").read_text()
    assert f"--server=https://kcp.example.com:{port['port']}/clusters/root" in page
    assert only(objects, "Certificate", "kcp-front-proxy-server")


@needs_helm
def test_without_etcd_the_store_has_a_volume_and_one_writer() -> None:
    objects = template("kcp", HOST, "--set=etcd.enabled=false")
    assert only(objects, "PersistentVolumeClaim", "test-kcp-data")
    assert only(objects, "Deployment", "test-kcp")["spec"]["strategy"] == {"type": "Recreate"}
    assert not any("etcd-servers" in word for word in _words(objects, "test-kcp"))
    assert not [one for one in objects if one["kind"] == "StatefulSet"]


@needs_helm
def test_the_operators_command_line_and_rights() -> None:
    objects = template("kcp-operator")
    _, *words = _words(objects, "test-kcp-operator")
    settings, warnings = OperatorSettings.parse(words)
    assert settings.operator.leader_elect
    assert warnings == []
    role = only(objects, "ClusterRole", "test-kcp-operator")
    assert not any("*" in rule["verbs"] for rule in role["rules"])


def test_the_charts_copies_are_current() -> None:
    assert (CHARTS / "kcp-operator/files/crds.yaml").read_text() == definitions_text()
    dashboard = (ROOT / "deploy/dashboards/kcp.json").read_text()
    assert (CHARTS / "kcp/files/dashboard.json").read_text() == dashboard


@pytest.mark.parametrize("chart", ["kcp", "kcp-operator"])
def test_alerts_name_metrics_that_exist(chart: str) -> None:
    known = set(
        re.findall(
            r"^\| `([a-z_]+)`", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE
        )
    )
    rules = yaml.safe_load((CHARTS / chart / "files/alerts.yaml").read_text())["groups"]
    for rule in (one for group in rules for one in group["rules"]):
        names = re.findall(r"\b((?:kcp|pykcp|apiserver|proxy)_[a-z_]+)\b", rule["expr"])
        assert names, rule
        for name in names:
            assert re.sub(r"_(bucket|count|sum)$", "", name) in known or name in known, name
        assert rule["annotations"]["summary"]


# --- real Helm against a server ----------------------------------------------------


def free_crd(group: str, kind: str, version: str = "v1", scope: str = "Namespaced") -> Object:
    plural = f"{kind.lower()}s"
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": free},
                }
            ],
        },
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhysicalCluster]:
    if HELM is None:
        pytest.skip("Helm is not installed")
    with own_cluster("helm", tmp_path_factory.mktemp("helm")) as found:
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for kind in ("Certificate", "Issuer"):
            made = found.client.post(crds, free_crd("cert-manager.io", kind))
            assert made.status == 201, made
        eventually(lambda: found.client.get("/apis/cert-manager.io/v1/issuers").status == 200)
        yield found


def test_the_operator_installs_and_uninstalls(cluster: PhysicalCluster) -> None:
    at = ("--namespace=kcp-operator", "--create-namespace")
    helm(
        "install", "kcp-operator", str(CHARTS / "kcp-operator"), *at, kubeconfig=cluster.kubeconfig
    )
    listed = json.loads(helm("list", "--output=json", at[0], kubeconfig=cluster.kubeconfig))
    assert [one["status"] for one in listed] == ["deployed"]
    path = "/apis/apps/v1/namespaces/kcp-operator/deployments/kcp-operator"
    assert cluster.client.get(path).status == 200
    shards = "/apis/operator.kcp.io/v1alpha1/namespaces/default/rootshards"
    eventually(lambda: cluster.client.get(shards).status == 200)
    more = ("--set=replicaCount=2", "--set=podDisruptionBudget.enabled=true")
    helm("upgrade", "kcp-operator", str(CHARTS / "kcp-operator"), at[0], *more, kubeconfig=cluster.kubeconfig)  # fmt: skip
    assert cluster.client.get(path).json["spec"]["replicas"] == 2
    helm("uninstall", "kcp-operator", at[0], kubeconfig=cluster.kubeconfig)
    assert cluster.client.get(path).status == 404


def test_kcp_installs_and_upgrades(cluster: PhysicalCluster) -> None:
    at = ("--namespace=kcp", "--create-namespace", HOST)
    helm("install", "kcp", str(CHARTS / "kcp"), *at, kubeconfig=cluster.kubeconfig)
    base = "/apis/apps/v1/namespaces/kcp"
    for path in ("deployments/kcp", "deployments/kcp-front-proxy", "statefulsets/kcp-etcd"):
        assert cluster.client.get(f"{base}/{path}").status == 200, path
    certificates = cluster.client.get("/apis/cert-manager.io/v1/namespaces/kcp/certificates").json
    names = {one["metadata"]["name"] for one in certificates["items"]}
    assert {"kcp-ca", "kcp-server", "kcp-front-proxy-server", "kcp-etcd-peer", "kcp-mounts-proxy"} <= names  # fmt: skip
    helm("upgrade", "kcp", str(CHARTS / "kcp"), *at, "--set=kcpFrontProxy.replicas=3", kubeconfig=cluster.kubeconfig)  # fmt: skip
    live = cluster.client.get(f"{base}/deployments/kcp-front-proxy").json
    assert live["spec"]["replicas"] == 3
