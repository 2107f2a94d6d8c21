"""What a pulling syncer needs: its account in the workspace, and a Deployment in the cluster. Pure.

Neither side gets more than is synchronized: in the cluster no rule names a group by `*`, and the
kubeconfig that is carried there is that of an account which sees the objects of this Cluster alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass

from pykcp.clients.remote.paths import server_root
from pykcp.multicluster.names import SYNCER_SUBRESOURCE, syncer_namespace, syncer_path
from pykcp.types import Object

SYNCER = "kcp-syncer"
ACCOUNT_NAMESPACE = "default"
"""Namespace of the workspace that has the accounts of syncers, and their leases."""
_RBAC = "rbac.authorization.k8s.io"
_WRITE = ["get", "list", "watch", "create", "update", "patch", "delete"]
_READ = ["get", "list", "watch"]
_CONFIG_PATH = "/etc/kcp"
_CONTENT = {
    "": (
        "configmaps endpoints limitranges persistentvolumeclaims pods podtemplates "
        "replicationcontrollers resourcequotas serviceaccounts services"
    ),
    "apps": "controllerrevisions daemonsets deployments replicasets statefulsets",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "coordination.k8s.io": "leases",
    "discovery.k8s.io": "endpointslices",
    "networking.k8s.io": "ingresses networkpolicies",
    "policy": "poddisruptionbudgets",
    _RBAC: "rolebindings roles",
    "resource.k8s.io": "resourceclaims resourceclaimtemplates",
    "storage.k8s.io": "csistoragecapacities",
}
"""What Kubernetes has in namespaces. The syncer deletes a namespace that it made only if it can see
that nothing is in it. Secrets are not listed for that reason alone.
"""


class UnlistableTypes(ValueError):
    """Types of all groups: a role cannot list them."""


@dataclass(frozen=True, slots=True)
class PulledCluster:
    """The Cluster that a syncer is for."""

    workspace: str
    """Logical cluster."""
    name: str
    uid: str

    @property
    def account(self) -> str:
        """Name of the account, its role and its token in the workspace."""
        return f"syncer-{self.name}"

    @property
    def namespace(self) -> str:
        """The namespace in the cluster."""
        return syncer_namespace(self.name, self.uid)


def by_group(resources: Iterable[str]) -> dict[str, list[str]]:
    """Types by group. Raises UnlistableTypes."""
    found: dict[str, list[str]] = {}
    for one in resources:
        plural, _, group = one.partition(".")
        if plural == "*" and not group:
            raise UnlistableTypes('list the types to synchronize: "*" is not possible here')
        found.setdefault("" if group == "core" else group, []).append(plural)
    return {group: sorted(set(plurals)) for group, plurals in sorted(found.items())}


def _rule(group: str, resources: Iterable[str], verbs: list[str], *names: str) -> Object:
    rule: Object = {"apiGroups": [group], "resources": list(resources), "verbs": verbs}
    if names:
        rule["resourceNames"] = list(names)
    return rule


# --- in the workspace --------------------------------------------------------------


def account_objects(cluster: PulledCluster) -> list[Object]:
    """The account of the syncer in the workspace, owned by the Cluster.

    It may use the virtual workspace of its Cluster, and nothing beside it.
    """
    rules = [_rule("workload.kcp.dev", [f"clusters/{SYNCER_SUBRESOURCE}"], _WRITE, cluster.name)]
    owner = {
        "apiVersion": "workload.kcp.dev/v1alpha1",
        "kind": "Cluster",
        "name": cluster.name,
        "uid": cluster.uid,
    }
    metadata: Object = {"name": cluster.account, "ownerReferences": [owner]}
    inside: Object = {**metadata, "namespace": ACCOUNT_NAMESPACE}
    subject = {"kind": "ServiceAccount", "name": cluster.account, "namespace": ACCOUNT_NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": inside},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {
                **inside,
                "annotations": {"kubernetes.io/service-account.name": cluster.account},
            },
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": metadata,
            "rules": rules,
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": cluster.account},
            "subjects": [subject],
        },
    ]


def kubeconfig(cluster: PulledCluster, url: str, authority: str, token: str) -> str:
    """A kubeconfig with one context, for the virtual workspace of a Cluster.

    `url`: of the control plane, with or without a logical cluster; `authority`: PEM, or "" for
    public ones.
    """
    root = syncer_path(cluster.workspace, cluster.name, cluster.uid)
    server: Object = {"server": f"{server_root(url)}{root}/clusters/{cluster.workspace}"}
    if authority:
        server["certificate-authority-data"] = base64.b64encode(authority.encode()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kcp", "cluster": server}],
        "users": [{"name": SYNCER, "user": {"token": token}}],
        "contexts": [{"name": "kcp", "context": {"cluster": "kcp", "user": SYNCER}}],
        "current-context": "kcp",
    }
    return json.dumps(document)  # which is YAML, too


# --- in the cluster ----------------------------------------------------------------


def syncer_objects(
    cluster: PulledCluster,
    resources: Iterable[str],
    image: str,
    kubeconfig_text: str,
    replicas: int = 1,
    *,
    has_tunnel: bool = True,
) -> list[Object]:
    """The manifest of the syncer. `has_tunnel`: whether users of the workspace may reach pods."""
    namespace = cluster.namespace
    inside: Object = {"name": SYNCER, "namespace": namespace}
    everywhere: Object = {"name": namespace}
    content = base64.b64encode(kubeconfig_text.encode()).decode()
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": inside},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": everywhere,
            "rules": _downstream_rules(resources, has_tunnel),
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": everywhere,
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": namespace},
            "subjects": [{"kind": "ServiceAccount", "name": SYNCER, "namespace": namespace}],
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**inside, "name": f"{SYNCER}-config"},
            "data": {"kubeconfig": content},
        },
        _deployment(cluster, inside, image, replicas, has_tunnel),
    ]


def _downstream_rules(resources: Iterable[str], has_tunnel: bool) -> list[Object]:
    rules = [
        _rule("", ["namespaces"], _WRITE),
        _rule("", ["nodes", "pods"], ["list"]),
        _rule("apiextensions.k8s.io", ["customresourcedefinitions"], _READ),
        {"nonResourceURLs": ["/readyz", "/version"], "verbs": ["get"]},
        *(_rule(group, plurals.split(), ["list"]) for group, plurals in _CONTENT.items()),
    ]
    if has_tunnel:  # the syncer answers for pods in namespaces that it made, and no others
        rules.append(_rule("", ["pods"], ["get", "list", "watch", "delete"]))
        rules.append(_rule("", ["pods/log"], ["get"]))
        streams = ["pods/exec", "pods/attach", "pods/portforward"]
        rules.append(_rule("", streams, ["get", "create"]))
    for group, plurals in by_group(resources).items():
        rules.append(_rule(group, plurals, _WRITE))
        rules.append(_rule(group, [f"{one}/status" for one in plurals], ["get"]))
    return rules


def _deployment(
    cluster: PulledCluster, metadata: Object, image: str, replicas: int, has_tunnel: bool
) -> Object:
    labels = {"app": SYNCER, "workload.kcp.dev/cluster": cluster.name}
    container: Object = {
        "name": SYNCER,
        "image": image,
        "command": ["syncer"],
        "args": [
            f"--from-kubeconfig={_CONFIG_PATH}/kubeconfig",
            f"--from-cluster={cluster.workspace}",
            f"--workload-cluster-name={cluster.name}",
            f"--workload-cluster-uid={cluster.uid}",
            *(() if has_tunnel else ("--tunnel=false",)),
        ],
        "volumeMounts": [{"name": "config", "mountPath": _CONFIG_PATH, "readOnly": True}],
        "resources": {"requests": {"cpu": "10m", "memory": "80Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "labels": labels},
        "spec": {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": SYNCER,
                    "containers": [container],
                    "volumes": [{"name": "config", "secret": {"secretName": f"{SYNCER}-config"}}],
                },
            },
        },
    }
