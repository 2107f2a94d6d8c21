"""Bindings on a real server: from nothing to Bound, what may be in the way, what follows."""

from __future__ import annotations

from pykcp.testing.apis import (
    BINDINGS,
    EXPORTS,
    RESOURCE,
    SCHEMAS,
    accepted,
    binding,
    export,
    schema,
)
from pykcp.testing.binding import (
    COWBOYS,
    bind,
    condition,
    cowboy,
    is_bound,
    made,
    name_of,
    offer,
)
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
LOCKS = "internal.apis.kcp.io/resource-bindings"


def test_bound_in_one_write(cluster: TestClient, provider: TestClient) -> None:
    """The binding is written twice in all, by whoever makes it and by its controller."""
    exported = offer(provider)
    bind(cluster, provider)
    eventually(lambda: is_bound(cluster))
    found = cluster.get(f"{BINDINGS}/cowboys").json
    uid = provider.get(f"{SCHEMAS}/v1.cowboys.wild.west").json["metadata"]["uid"]
    status = found["status"]
    assert status["apiExportClusterName"] == name_of(provider)
    assert status["boundResources"] == [
        {
            "group": "wild.west",
            "resource": "cowboys",
            "schema": {
                "name": "v1.cowboys.wild.west",
                "UID": uid,
                "identityHash": exported["status"]["identityHash"],
            },
            "storageVersions": ["v1"],
        }
    ]
    assert [(c["type"], c["status"]) for c in status["conditions"]] == [
        ("Ready", "True"),
        ("APIExportValid", "True"),
        ("BindingUpToDate", "True"),
        ("InitialBindingCompleted", "True"),
        ("PermissionClaimsApplied", "True"),
        ("PermissionClaimsValid", "True"),
    ]
    watch = cluster.watch(BINDINGS, resourceVersion="0", timeoutSeconds="1")
    assert next(watch)["object"]["metadata"]["resourceVersion"] == str(
        found["metadata"]["resourceVersion"]
    )
    watch.close()
    lock = cluster.get(CLUSTER).json["metadata"]["annotations"][LOCKS]
    assert lock == '{"cowboys.wild.west":{"n":"cowboys"}}'
    assert cluster.post(COWBOYS, cowboy()).status == 201


def test_a_large_binding_is_bound_and_unbound(cluster: TestClient, provider: TestClient) -> None:
    """Worker processes compute its writes; what is bound and locked is as of a small one."""
    exported = offer(provider)
    given = binding("cowboys", "cowboys", name_of(provider), [accepted("secrets")])
    given["metadata"]["annotations"] = {"filler": "x" * 40_000}
    made(cluster, BINDINGS, given)
    eventually(lambda: is_bound(cluster))
    found = cluster.get(f"{BINDINGS}/cowboys").json
    (bound,) = found["status"]["boundResources"]
    assert bound["schema"]["identityHash"] == exported["status"]["identityHash"]
    assert found["metadata"]["finalizers"] == ["apis.kcp.io/apibinding-finalizer"]
    lock = cluster.get(CLUSTER).json["metadata"]["annotations"][LOCKS]
    assert lock == '{"cowboys.wild.west":{"n":"cowboys"}}'
    bind(cluster, provider, "other", export="cowboys")
    eventually(lambda: condition(cluster, "other", "BindingUpToDate"))
    assert condition(cluster, "other", "BindingUpToDate")["reason"] == "NamingConflicts"
    assert cluster.delete(f"{BINDINGS}/cowboys").status == 200
    eventually(lambda: is_bound(cluster, "other"))
    lock = cluster.get(CLUSTER).json["metadata"]["annotations"][LOCKS]
    assert lock == '{"cowboys.wild.west":{"n":"other"}}'


def test_a_new_schema_is_rolled_out(cluster: TestClient, provider: TestClient) -> None:
    offer(provider)
    bind(cluster, provider)
    eventually(lambda: is_bound(cluster))
    assert cluster.post(COWBOYS, cowboy()).status == 201
    newer = schema("v2.cowboys.wild.west")
    newer["spec"]["versions"][0]["schema"]["properties"]["extra"] = {"type": "string"}
    made(provider, SCHEMAS, newer)
    change = {"spec": {"resources": [{**RESOURCE, "schema": "v2.cowboys.wild.west"}]}}
    assert provider.patch(f"{EXPORTS}/cowboys", change).status == 200
    eventually(
        lambda: (
            cluster.get(f"{BINDINGS}/cowboys").json["status"]["boundResources"][0]["schema"]["name"]
            == "v2.cowboys.wild.west"
        )
    )
    assert cluster.get(f"{COWBOYS}/jesse").status == 200
    more = {**cowboy("frank"), "extra": "x"}
    assert cluster.post(COWBOYS, more).json["extra"] == "x"


def test_an_export_that_goes_leaves_what_is_bound(
    cluster: TestClient, provider: TestClient
) -> None:
    offer(provider)
    bind(cluster, provider)
    eventually(lambda: is_bound(cluster))
    assert provider.delete(f"{EXPORTS}/cowboys").status == 200
    eventually(lambda: condition(cluster, "cowboys", "APIExportValid")["status"] == "False")
    found = condition(cluster, "cowboys", "APIExportValid")
    assert found["reason"] == "APIExportNotFound"
    assert found["message"] == f"APIExport {name_of(provider)}|cowboys not found"
    assert condition(cluster, "cowboys", "Ready")["status"] == "True"
    assert cluster.get(COWBOYS).status == 200
    offer(provider)  # with the same secret, so the same identity
    eventually(lambda: condition(cluster, "cowboys", "APIExportValid")["status"] == "True")


def test_a_missing_schema(cluster: TestClient, provider: TestClient) -> None:
    made(provider, EXPORTS, export("early", resources=[RESOURCE]))
    eventually(lambda: "identityHash" in provider.get(f"{EXPORTS}/early").json.get("status", {}))
    bind(cluster, provider, "early")
    eventually(lambda: condition(cluster, "early", "APIExportValid"))
    assert condition(cluster, "early", "APIExportValid")["message"] == (
        "Invalid APIExport. Please contact the APIExport owner to resolve: "
        'APIResourceSchema "v1.cowboys.wild.west" not found'
    )
    assert cluster.get(f"{BINDINGS}/early").json["status"]["phase"] == "Binding"
    assert condition(cluster, "early", "Ready")["status"] == "False"
    made(provider, SCHEMAS, schema())
    eventually(lambda: is_bound(cluster, "early"))
    assert condition(cluster, "early", "Ready")["status"] == "True"


def test_the_first_binding_keeps_a_resource(cluster: TestClient, provider: TestClient) -> None:
    """The second one gets it when the first one goes."""
    offer(provider)
    offer(provider, "again")
    bind(cluster, provider)
    eventually(lambda: is_bound(cluster))
    bind(cluster, provider, "again")
    eventually(lambda: condition(cluster, "again", "InitialBindingCompleted"))
    found = condition(cluster, "again", "InitialBindingCompleted")
    assert (found["reason"], found["message"]) == (
        "NamingConflicts",
        "Unable to bind APIs because they are bound by other APIBindings or CRDs: map[cowboys.wild.west:{cowboys false}]",
    )
    assert cluster.delete(f"{BINDINGS}/cowboys").status == 200
    eventually(lambda: cluster.get(f"{BINDINGS}/cowboys").status == 404)
    eventually(lambda: is_bound(cluster, "again"))


def crd(plural: str = "cowboys", kind: str = "Cowboy") -> Object:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.wild.west"},
        "spec": {
            "group": "wild.west",
            "names": {
                "plural": plural,
                "singular": plural[:-1],
                "kind": kind,
                "listKind": f"{kind}List",
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def test_a_crd_keeps_a_resource_until_it_is_gone(cluster: TestClient, provider: TestClient) -> None:
    made(cluster, CRDS, crd())
    lock = '{"cowboys.wild.west":{"c":true}}'
    eventually(lambda: cluster.get(CLUSTER).json["metadata"]["annotations"].get(LOCKS) == lock)
    offer(provider)
    bind(cluster, provider)
    eventually(lambda: condition(cluster, "cowboys", "InitialBindingCompleted"))
    assert condition(cluster, "cowboys", "InitialBindingCompleted")["message"] == (
        "Unable to bind APIs because they are bound by other APIBindings or CRDs: "
        "map[cowboys.wild.west:{ true}]"
    )
    assert cluster.delete(f"{CRDS}/cowboys.wild.west").status == 200
    eventually(lambda: is_bound(cluster))


def test_names_conflict_with_a_crd(cluster: TestClient, provider: TestClient) -> None:
    """Another resource, but the same kind."""
    made(cluster, CRDS, crd("ranchers"))
    eventually(lambda: cluster.get("/apis/wild.west/v1/ranchers").status == 200)
    offer(provider)
    bind(cluster, provider)
    eventually(lambda: condition(cluster, "cowboys", "InitialBindingCompleted"))
    found = condition(cluster, "cowboys", "BindingUpToDate")
    assert found["message"] == (
        'Unable to bind APIs: naming conflict with CustomResourceDefinition "ranchers.wild.west": '
        "spec.names.kind=Cowboy is forbidden"
    )
    assert cluster.delete(f"{CRDS}/ranchers.wild.west").status == 200
    eventually(lambda: is_bound(cluster))


def test_a_crd_does_not_take_what_is_bound(cluster: TestClient, provider: TestClient) -> None:
    """It may be made, as in kcp, but what is served is what was bound."""
    offer(provider)
    bind(cluster, provider)
    eventually(lambda: is_bound(cluster))
    assert cluster.post(COWBOYS, cowboy()).status == 201
    made(cluster, CRDS, crd())
    eventually(lambda: cluster.get(f"{CRDS}/cowboys.wild.west").json["status"]["conditions"])
    assert cluster.get(f"{COWBOYS}/jesse").status == 200
    lock = cluster.get(CLUSTER).json["metadata"]["annotations"][LOCKS]
    assert lock == '{"cowboys.wild.west":{"n":"cowboys"}}'
    assert cluster.delete(f"{CRDS}/cowboys.wild.west").status == 200
    eventually(lambda: cluster.get(f"{CRDS}/cowboys.wild.west").status == 404)
    assert cluster.get(f"{COWBOYS}/jesse").status == 200


def test_objects_go_with_the_binding(cluster: TestClient, provider: TestClient) -> None:
    offer(provider)
    bind(cluster, provider)
    eventually(lambda: is_bound(cluster))
    assert cluster.post(COWBOYS, cowboy("free")).status == 201
    held = cowboy("held", finalizers=["example.com/hold"])
    assert cluster.post(COWBOYS, held).status == 201
    assert cluster.delete(f"{BINDINGS}/cowboys").status == 200
    eventually(lambda: cluster.get(f"{COWBOYS}/free").status == 404)
    eventually(lambda: condition(cluster, "cowboys", "BindingResourceDeleteSuccess"))
    found = condition(cluster, "cowboys", "BindingResourceDeleteSuccess")
    assert (found["status"], found["reason"], found["message"]) == (
        "False",
        "SomeFinalizersRemain",
        "Some content in the workspace has finalizers remaining: example.com/hold in 1 resource instances",
    )
    late = cluster.post(COWBOYS, cowboy("late"))
    assert late.status == 403
    assert cluster.patch(f"{COWBOYS}/held", {"metadata": {"finalizers": None}}).status == 200
    eventually(lambda: cluster.get(f"{BINDINGS}/cowboys").status == 404)
    eventually(lambda: cluster.get(COWBOYS).status == 404)
    eventually(lambda: cluster.get(CLUSTER).json["metadata"]["annotations"][LOCKS] == "{}")
    bind(cluster, provider)
    eventually(lambda: is_bound(cluster))
    assert cluster.get(COWBOYS).json["items"] == []


def test_a_successor_adopts_the_objects(cluster: TestClient, provider: TestClient) -> None:
    """A binding to an export of the same schema and identity takes them over."""
    exported = offer(provider)
    secret = exported["spec"]["identity"]["secretRef"]
    provider.post(EXPORTS, export("other", resources=[RESOURCE], identity={"secretRef": secret}))
    identity = exported["status"]["identityHash"]
    eventually(
        lambda: (
            (provider.get(f"{EXPORTS}/other").json.get("status") or {}).get("identityHash")
            == identity
        )
    )
    bind(cluster, provider)
    eventually(lambda: is_bound(cluster))
    kept = cluster.post(COWBOYS, cowboy("kept")).json
    bind(cluster, provider, "other")
    eventually(lambda: condition(cluster, "other", "BindingUpToDate"))
    assert cluster.delete(f"{BINDINGS}/cowboys").status == 200
    eventually(lambda: is_bound(cluster, "other"))
    assert cluster.get(f"{COWBOYS}/kept").json == kept


def test_annotations_for_bindings(cluster: TestClient, provider: TestClient) -> None:
    offer(provider)
    key = "extra.apis.kcp.io/flavour"
    change: Object = {"metadata": {"annotations": {key: "mint"}}}
    assert provider.patch(f"{EXPORTS}/cowboys", change).status == 200
    bind(cluster, provider)

    def flavour() -> str | None:
        found: str | None = (
            cluster.get(f"{BINDINGS}/cowboys").json["metadata"]["annotations"].get(key)
        )
        return found

    eventually(lambda: flavour() == "mint")
    change["metadata"]["annotations"][key] = "lemon"
    assert provider.patch(f"{EXPORTS}/cowboys", change).status == 200
    eventually(lambda: flavour() == "lemon")
    change["metadata"]["annotations"][key] = None
    assert provider.patch(f"{EXPORTS}/cowboys", change).status == 200
    eventually(lambda: flavour() is None)


def test_a_bound_crd_that_is_deleted_comes_back(
    cluster: TestClient, provider: TestClient, shard: ServerProcess
) -> None:
    offer(provider)
    bind(cluster, provider)
    eventually(lambda: is_bound(cluster))
    uid = provider.get(f"{SCHEMAS}/v1.cowboys.wild.west").json["metadata"]["uid"]
    system = shard.client(cluster="system:bound-crds")
    before = system.get(f"{CRDS}/{uid}").json
    assert before["metadata"]["annotations"]["apis.kcp.io/schema-cluster"] == name_of(provider)
    assert system.delete(f"{CRDS}/{uid}").status == 200
    eventually(
        lambda: (
            (again := system.get(f"{CRDS}/{uid}")).status == 200
            and again.json["metadata"]["uid"] != before["metadata"]["uid"]
        )
    )
    eventually(lambda: cluster.post(COWBOYS, cowboy("back")).status == 201)
