"""Who may publish again what another workspace has in the cache."""

from __future__ import annotations

import pytest

from pykcp.testing.clusters import make_cluster
from pykcp.testing.rights import grant
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

CACHE = "/apis/cache.kcp.io/v1alpha1"
NEW = ("clustercachedresourceendpointslices", "ClusterCachedResourceEndpointSlice")
OLD = ("cachedresourceendpointslices", "CachedResourceEndpointSlice")


def a_slice(kind: str, reference: Object) -> Object:
    field = kind[0].lower() + kind.removesuffix("EndpointSlice")[1:]
    return {
        "apiVersion": "cache.kcp.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "s"},
        "spec": {field: reference, "export": {"name": "e"}},
    }


@pytest.mark.parametrize("names", [NEW, OLD])
def test_another_workspaces_publication_is_not_anybodys(
    shard: ServerProcess, names: tuple[str, str]
) -> None:
    """Neither what is there nor what is not: the answer is the same."""
    plural, kind = names
    victim = make_cluster(shard, f"victim-{plural[:3]}")
    own = make_cluster(shard, f"own-{plural[:3]}")
    at = victim.prefix.rpartition("/")[2]
    spec = {"group": "rbac.authorization.k8s.io", "version": "v1", "resource": "clusterroles"}
    cached = {
        "apiVersion": "cache.kcp.io/v1alpha1",
        "kind": "ClusterCachedResource",
        "metadata": {"name": "roles"},
        "spec": spec,
    }
    assert victim.post(f"{CACHE}/clustercachedresources", cached).status == 201
    grant(own, "alice", "*", "*", "*")
    alice = own.with_token("alice-token")
    for path, name in ((at, "roles"), (at, "missing"), ("root:nowhere", "roles")):
        body = a_slice(kind, {"path": path, "name": name})
        reply = alice.post(f"{CACHE}/{plural}", body)
        assert reply.status == 403, reply
        why = f"no permission to get ClusterCachedResource {path}:{name}"
        assert reply.json["message"].endswith(f"is forbidden: {why}")
    body = a_slice(kind, {"path": at, "name": "roles"})
    grant(victim, "alice", "get", "clustercachedresources", "cache.kcp.io")
    assert alice.post(f"{CACHE}/{plural}", body).status == 201


def test_old_names_have_the_same_rules(shard: ServerProcess) -> None:
    own = make_cluster(shard, "old-names-rules")
    body = {
        "apiVersion": "cache.kcp.io/v1alpha1",
        "kind": "CachedResource",
        "metadata": {"name": "maps"},
        "spec": {"group": "", "version": "v1", "resource": "configmaps"},
    }
    reply = own.post(f"{CACHE}/cachedresources", body)
    assert reply.status == 403, reply
    assert "must be cluster-scoped" in reply.json["message"]
