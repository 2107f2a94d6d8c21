"""Names and labels of everything that the operator makes.

R is the name of a RootShard, S of a Shard, F of a FrontProxy, C of a CacheServer, V of a
VirtualWorkspace, K of a Kubeconfig. The names have no prefix for the kind, as in kcp's operator.
"""

from __future__ import annotations

from pykcp.machinery.resources import GroupVersionResource
from pykcp.programs.operator import compiled

GROUP, VERSION = "operator.kcp.io", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

ROOT_SHARDS = GroupVersionResource(GROUP, VERSION, "rootshards")
SHARDS = GroupVersionResource(GROUP, VERSION, "shards")
FRONT_PROXIES = GroupVersionResource(GROUP, VERSION, "frontproxies")
CACHE_SERVERS = GroupVersionResource(GROUP, VERSION, "cacheservers")
VIRTUAL_WORKSPACES = GroupVersionResource(GROUP, VERSION, "virtualworkspaces")
KUBECONFIGS = GroupVersionResource(GROUP, VERSION, "kubeconfigs")

KINDS = {
    "RootShard": ROOT_SHARDS,
    "Shard": SHARDS,
    "FrontProxy": FRONT_PROXIES,
    "CacheServer": CACHE_SERVERS,
    "VirtualWorkspace": VIRTUAL_WORKSPACES,
    "Kubeconfig": KUBECONFIGS,
}

OWNER_LABELS = {
    "RootShard": f"{GROUP}/rootshard",
    "Shard": f"{GROUP}/shard",
    "FrontProxy": f"{GROUP}/front-proxy",
    "CacheServer": f"{GROUP}/cache-server",
    "VirtualWorkspace": f"{GROUP}/virtual-workspace",
    "Kubeconfig": f"{GROUP}/kubeconfig",
}
"""On Secrets and ConfigMaps: what they belong to."""

SHARD_CLEANUP = f"{GROUP}/cleanup-shard"
RBAC_CLEANUP = f"{GROUP}/cleanup-rbac"
"""Finalizers."""

MANAGER = "kcp-operator"

PROXY_USER = "kcp-front-proxy"
ROOT_PROXY_USER = "kcp-root-shard-proxy"
MOUNTS_USER = "kcp-mounts-proxy"
"""Common names of certificates that forward the identities of users."""

_SUFFIXES = {
    compiled.ROOT_SHARD: "kcp",
    compiled.ROOT_SHARD_PROXY: "proxy",
    compiled.SHARD: "shard-kcp",
    compiled.FRONT_PROXY: "front-proxy",
    compiled.CACHE_SERVER: "cache-server",
    compiled.VIRTUAL_WORKSPACE: "virtual-workspace",
}

COMPONENTS = {
    "RootShard": compiled.ROOT_SHARD,
    "Shard": compiled.SHARD,
    "FrontProxy": compiled.FRONT_PROXY,
    "CacheServer": compiled.CACHE_SERVER,
    "VirtualWorkspace": compiled.VIRTUAL_WORKSPACE,
}
"""The workload that each kind is run by; a RootShard has a proxy of its own besides."""


def workload_name(component: str, name: str) -> str:
    """Of the Deployment and the Service."""
    return f"{name}-{_SUFFIXES[component]}"


def workload_labels(component: str, name: str) -> dict[str, str]:
    """Also the selector of pods."""
    return {
        "app.kubernetes.io/managed-by": MANAGER,
        "app.kubernetes.io/name": "kcp",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/component": component,
    }


def owner_labels(kind: str, name: str) -> dict[str, str]:
    return {OWNER_LABELS[kind]: name, "app.kubernetes.io/managed-by": MANAGER}


def merged_client_ca(name: str) -> str:
    return f"{name}-merged-client-ca"


def merged_ca_bundle(name: str) -> str:
    return f"{name}-merged-ca-bundle"


def known_shards(root: str) -> str:
    """The shards of an installation, for proxies that start while the root shard is away."""
    return f"{root}-shards"


def account_keys(root: str) -> str:
    """The public keys of all service accounts of an installation."""
    return f"{root}-service-account-keys"
