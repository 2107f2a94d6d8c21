"""`kubectl kcp workload sync`: registers a cluster, and prints what runs its syncer there."""

from __future__ import annotations

import base64
from typing import Any

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_yaml import dump
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation
from pykcp.cli.plugins.wait import poll
from pykcp.cli.plugins.workload.clusters import argument, clusters
from pykcp.cli.plugins.workspace.resources import Collection
from pykcp.machinery.names import dns1123_label
from pykcp.multicluster.clusters.manifest import (
    ACCOUNT_NAMESPACE,
    PulledCluster,
    UnlistableTypes,
    account_objects,
    by_group,
    kubeconfig,
    syncer_objects,
)
from pykcp.multicluster.clusters.settings import DEFAULT_RESOURCES

Object = dict[str, Any]
_PLURALS = {
    "ServiceAccount": f"namespaces/{ACCOUNT_NAMESPACE}/serviceaccounts",
    "Secret": f"namespaces/{ACCOUNT_NAMESPACE}/secrets",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
}


def sync(invocation: CommandInvocation) -> None:
    name = argument(invocation)
    if dns1123_label(name):
        raise PluginError(f"{name!r} is not a name for a cluster: {dns1123_label(name)[0]}")
    if not invocation["syncer-image"]:
        raise PluginError("--syncer-image is required")
    resources = tuple(invocation["resources"] or DEFAULT_RESOURCES)
    try:
        by_group(resources)
    except UnlistableTypes as error:
        raise PluginError(f"--resources: {error}") from None
    session = Session(invocation)
    current = session.current()
    cluster = _register(session.client, current, name, resources)
    logical = (cluster["metadata"].get("annotations") or {}).get("kcp.io/cluster") or current
    pulled = PulledCluster(logical, name, cluster["metadata"]["uid"])
    for obj in account_objects(pulled):
        _ensure(session.client, current, obj)
    token, authority = _token(session.client, current, pulled)
    config = kubeconfig(pulled, invocation["kcp-url"] or session.client.base, authority, token)
    made = syncer_objects(
        pulled,
        resources,
        invocation["syncer-image"],
        config,
        invocation["replicas"],
        has_tunnel=invocation["tunnel"],
    )
    _write("".join(f"---\n{dump(obj)}" for obj in made), invocation["output-file"])


def _register(client: RestClient, current: str, name: str, resources: tuple[str, ...]) -> Object:
    objects = clusters(client, current)
    try:
        found = objects.get(name)
    except ServerError as error:
        if not error.is_not_found:
            raise
    else:
        if (found.get("spec") or {}).get("mode") not in (None, "Pull"):
            raise PluginError(f"cluster {name} is registered with the mode {found['spec']['mode']}")
        return found
    body = {
        "apiVersion": "workload.kcp.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"mode": "Pull", "syncResources": list(resources)},
    }
    try:
        return objects.create(body)
    except ServerError as error:
        if error.is_not_found:
            raise PluginError(
                "the workspace has no clusters; run: kubectl kcp bind apiexport "
                "root:workload.kcp.dev"
            ) from None
        raise


def _ensure(client: RestClient, current: str, obj: Object) -> None:
    """Create it; a role is replaced, since the types may have changed."""
    objects = _collection(client, current, obj)
    try:
        objects.create(obj)
    except ServerError as error:
        if error.code != 409:
            raise
        if obj["kind"] == "ClusterRole":
            live = objects.get(obj["metadata"]["name"])
            objects.replace({**live, "rules": obj["rules"]})


def _collection(client: RestClient, current: str, obj: Object) -> Collection:
    group, _, version = obj["apiVersion"].rpartition("/")
    return Collection(client, current, group, version, _PLURALS[obj["kind"]])


def _token(client: RestClient, current: str, cluster: PulledCluster) -> tuple[str, str]:
    """The token of the account, and the authority that signs the server's certificate."""
    secrets = Collection(client, current, "", "v1", _PLURALS["Secret"])
    data: Object = {}

    def is_there() -> bool:
        data.update(secrets.get(cluster.account).get("data") or {})
        return bool(data.get("token"))

    poll(is_there, 20.0, lambda: f"the token of the account {cluster.account} was not made")
    decoded = {key: base64.b64decode(data.get(key) or "").decode() for key in ("token", "ca.crt")}
    return decoded["token"], decoded["ca.crt"]


def _write(text: str, name: str) -> None:
    if name in ("", "-"):
        print(text, end="")
        return
    import os

    # It has a credential.
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
