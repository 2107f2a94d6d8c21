"""Definitions: warnings, conditions, reserved names, their end, and reads over all clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykcp.testing.client import APPLY, MERGE, TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess

Object = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def version(name: str, *, storage: bool = False, **more: Any) -> Object:
    schema = {"openAPIV3Schema": FREE}
    return {"name": name, "served": True, "storage": storage, "schema": schema, **more}


def definition(plural: str, group: str, *versions: Object, **more: Any) -> Object:
    kind = plural.capitalize()
    return {
        "metadata": {"name": f"{plural}.{group or 'core'}", **more.pop("metadata", {})},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": kind, **more},
            "versions": list(versions) or [version("v1", storage=True)],
        },
    }


def condition(client: TestClient, name: str, kind: str) -> Object:
    status = client.get(f"{CRDS}/{name}").json.get("status") or {}
    return next((c for c in status.get("conditions") or () if c["type"] == kind), {})


def install(client: TestClient, crd: Object) -> None:
    made = client.post(CRDS, crd)
    assert made.status == 201, made
    name = crd["metadata"]["name"]
    eventually(lambda: condition(client, name, "Established").get("status") == "True")


def test_deprecated_versions_warn_whoever_uses_them(cluster: TestClient) -> None:
    old = version("v1beta1", deprecated=True)
    older = version("v1alpha1", deprecated=True, deprecationWarning="use v1, please")
    install(cluster, definition("things", "example.com", version("v1", storage=True), old, older))
    path = "/apis/example.com/{}/namespaces/default/things"
    default = '299 - "example.com/v1beta1 Things is deprecated; use example.com/v1 Things"'
    thing = {"apiVersion": "example.com/v1beta1", "kind": "Things", "metadata": {"name": "a"}}
    assert cluster.post(path.format("v1beta1"), thing).header_all("warning") == [default]
    assert cluster.get(path.format("v1beta1")).header_all("warning") == [default]
    assert cluster.get(f"{path.format('v1beta1')}/none").header_all("warning") == [default]
    assert cluster.get(path.format("v1")).header_all("warning") == []
    assert cluster.get(path.format("v1alpha1")).header_all("warning") == ['299 - "use v1, please"']
    watched = cluster.get(path.format("v1beta1"), watch="true", timeoutSeconds=1)
    assert watched.header_all("warning") == [default]


def test_objects_with_restricted_names_are_applied_again(cluster: TestClient) -> None:
    short = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"metadata": short}}}
    restricted = version("v1", storage=True, schema=schema)
    install(cluster, definition("shorts", "example.com", restricted))
    path = "/apis/example.com/v1/namespaces/default/shorts"
    thing = {"apiVersion": "example.com/v1", "kind": "Shorts", "metadata": {"name": "short"}}
    statuses = [
        cluster.patch(f"{path}/short", thing, APPLY, fieldManager="me").status for _ in "12"
    ]
    assert statuses == [201, 200]
    assert cluster.post(path, {**thing, "metadata": {"name": "too-long"}}).status == 422


def test_a_default_status_outlives_the_one_that_is_dropped(cluster: TestClient) -> None:
    phase = {"type": "string"}
    status = {"type": "object", "properties": {"phase": phase}, "default": {"phase": "Waiting"}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}}
    waiting = version("v1", storage=True, subresources={"status": {}}, schema=schema)
    install(cluster, definition("waits", "example.com", waiting))
    path = "/apis/example.com/v1/namespaces/default/waits"
    given = {"apiVersion": "example.com/v1", "kind": "Waits", "metadata": {"name": "a"}}
    made = cluster.post(path, {**given, "status": {"phase": "Done"}})
    assert (made.status, made.json["status"]) == (201, {"phase": "Waiting"}), made
    assert cluster.get(f"{path}/a").json["status"] == {"phase": "Waiting"}
    done = cluster.put(f"{path}/a/status", {**made.json, "status": {"phase": "Done"}})
    assert done.json["status"] == {"phase": "Done"}, done
    kept = cluster.put(f"{path}/a", {**given, "metadata": done.json["metadata"]})
    assert kept.json["status"] == {"phase": "Done"}, kept


@pytest.mark.parametrize("patch", [{"spec": {}}, {"metadata": {"labels": {"a": "b"}}}])
def test_a_default_that_storage_drops_is_a_change_each_time(
    cluster: TestClient, patch: Object
) -> None:
    """What is written at v1 has it, what is read back has not, since v2 does not know it."""
    fields = {"a": {"type": "integer"}, "deep": {"type": "object", "properties": {}}}
    own = {"type": "integer", "default": 5}
    both = []
    for name, extra in (("v1", {"c": own}), ("v2", {})):
        deep = {"type": "object", "properties": extra}
        spec = {"type": "object", "properties": {**fields, "deep": deep}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        both.append(version(name, storage=name == "v2") | {"schema": schema})
    install(cluster, definition("things", "example.com", *both))
    path = "/apis/example.com/v1/namespaces/default/things"
    thing = {"apiVersion": "example.com/v1", "kind": "Things", "metadata": {"name": "t"}}
    made = cluster.post(path, {**thing, "spec": {"a": 1, "deep": {}}}).json
    assert made["metadata"]["generation"] == 1
    assert cluster.get(f"{path}/t").json["spec"] == {"a": 1, "deep": {}}
    for generation in (2, 3):
        patched = cluster.patch(f"{path}/t", patch, MERGE).json
        assert patched["metadata"]["generation"] == generation
    assert cluster.get(f"{path}/t").json["spec"] == {"a": 1, "deep": {}}


def test_names_are_freed_when_their_holder_goes(cluster: TestClient) -> None:
    install(cluster, definition("ones", "example.com", shortNames=["o"]))
    twos = definition("twos", "example.com", shortNames=["o"])
    assert cluster.post(CRDS, twos).status == 201
    name = "twos.example.com"
    eventually(lambda: condition(cluster, name, "NamesAccepted").get("status") == "False")
    assert condition(cluster, name, "NamesAccepted")["message"] == '"o" is already in use'
    assert condition(cluster, name, "Established")["reason"] == "NotAccepted"
    cluster.patch(f"{CRDS}/ones.example.com", {"spec": {"names": {"shortNames": None}}})
    eventually(lambda: condition(cluster, name, "Established").get("status") == "True")


def test_community_groups_say_whether_they_are_approved(cluster: TestClient) -> None:
    crd = definition("things", "sigs.k8s.io")
    refused = cluster.post(CRDS, crd)
    assert refused.status == 422
    assert "protected groups must have approval annotation" in refused.json["message"]
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    install(cluster, crd)
    found = condition(cluster, "things.sigs.k8s.io", "KubernetesAPIApprovalPolicyConformant")
    assert (found["status"], found["reason"]) == ("False", "UnapprovedAnnotation")


@pytest.mark.parametrize("key", ["apis.kcp.io/bound", "x.apis.kcp.io/y"])
def test_reserved_annotations(cluster: TestClient, key: str) -> None:
    crd = definition("things", "example.com", metadata={"annotations": {key: "1"}})
    refused = cluster.post(CRDS, crd)
    assert refused.status == 403
    assert refused.json["message"] == (
        'customresourcedefinitions.apiextensions.k8s.io "things.example.com" is forbidden: '
        f"{key} is a reserved annotation"
    )


@pytest.mark.parametrize("group", ["apis.kcp.io", "my.apis.kcp.io"])
def test_reserved_groups(cluster: TestClient, group: str) -> None:
    refused = cluster.post(CRDS, definition("things", group))
    assert refused.status == 403
    assert refused.json["message"].endswith(f"is forbidden: {group} is a reserved group")


def test_a_definition_without_a_group_adds_to_the_core_group(cluster: TestClient) -> None:
    install(cluster, definition("gizmos", ""))
    path = "/api/v1/namespaces/default/gizmos"
    made = cluster.post(
        path, {"apiVersion": "v1", "kind": "Gizmos", "metadata": {"name": "a"}, "spec": {"x": 1}}
    )
    assert made.status == 201, made
    assert cluster.get(f"{path}/a").json["spec"] == {"x": 1}
    names = [r["name"] for r in cluster.get("/api/v1").json["resources"]]
    assert "gizmos" in names
    assert "configmaps" in names
    nameless = definition("gadgets", "")
    nameless["metadata"]["name"] = "gadgets.example.com"
    refused = cluster.post(CRDS, nameless)
    assert "spec.group: Required value" in refused.json["message"]
    cluster.delete(f"{CRDS}/gizmos.core")
    eventually(lambda: cluster.get(path).status == 404)


def deployments() -> Object:
    """A kind of one of Kubernetes' groups, as clusters that want it define it."""
    container = {
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "image": {"type": "string"}},
    }  # fmt: skip
    spec = {
        "containers": {
            "type": "array", "items": container,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        },
        "args": {"type": "array", "items": {"type": "string"}},
        "zones": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    }  # fmt: skip
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object", "properties": spec, "x-kubernetes-preserve-unknown-fields": True,
            },
        },
    }  # fmt: skip
    served = version("v1", storage=True, schema={"openAPIV3Schema": schema})
    return definition("deployments", "apps", served)


def test_groups_of_kubernetes_need_no_dot(cluster: TestClient) -> None:
    install(cluster, deployments())
    documents = cluster.get("/openapi/v3/apis/apps/v1").json["components"]["schemas"]
    assert "apps.api.k8s.io.v1.Deployments" in documents
    refused = cluster.post(CRDS, definition("deployments", "mine"))
    assert "should be a domain with at least one dot" in refused.json["message"]


def test_kinds_of_kubernetes_take_strategic_patches(cluster: TestClient) -> None:
    install(cluster, deployments())
    path = "/apis/apps/v1/namespaces/default/deployments"
    spec = {
        "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}],
        "args": ["x", "y"], "zones": ["1"], "free": {"list": [1], "map": {"a": 1}},
    }  # fmt: skip
    body = {"apiVersion": "apps/v1", "kind": "Deployments", "metadata": {"name": "d"}, "spec": spec}
    made = cluster.post(path, body).json
    patch = {
        "metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "labels": {"l": "1"}},
        "spec": {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
            "containers": [{"name": "b", "image": "2"}],
            "args": ["z"], "zones": ["2"], "free": {"list": [2], "map": {"b": 2}},
        },
    }  # fmt: skip
    strategic = "application/strategic-merge-patch+json"
    changed = cluster.patch(f"{path}/d", patch, strategic)
    assert changed.status == 200, changed
    assert changed.json["spec"] == {
        "containers": [{"name": "b", "image": "2"}, {"name": "a", "image": "1"}],
        "args": ["z"], "zones": ["2", "1"], "free": {"list": [2], "map": {"a": 1, "b": 2}},
    }  # fmt: skip
    metadata = changed.json["metadata"]
    assert metadata["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert metadata["labels"] == {"l": "1"}


def test_other_kinds_take_no_strategic_patches(cluster: TestClient) -> None:
    install(cluster, definition("gizmos", "example.com"))
    path = "/apis/example.com/v1/namespaces/default/gizmos/g"
    for place in (path, path.removesuffix("/g")):  # a missing name is the smaller mistake
        for form in ("application/strategic-merge-patch+json", "application/json", ""):
            refused = cluster.patch(place, {}, form)
            assert refused.status == 415, (place, form)
            assert refused.json["message"].endswith(
                "application/json-patch+json, application/merge-patch+json,"
                " application/apply-patch+yaml"
            )
    unnamed = cluster.patch(path.removesuffix("/g"), {})
    assert (unnamed.status, unnamed.json["message"]) == (400, "name must be provided")


def test_the_end_of_a_definition_waits_for_finalizers(cluster: TestClient) -> None:
    install(cluster, definition("things", "example.com"))
    path = "/apis/example.com/v1/namespaces/default/things"
    for name, finalizers in (("free", []), ("held", ["example.com/hold"])):
        thing = {
            "apiVersion": "example.com/v1",
            "kind": "Things",
            "metadata": {"name": name, "finalizers": finalizers},
        }
        assert cluster.post(path, thing).status == 201
    cluster.delete(f"{CRDS}/things.example.com")
    eventually(lambda: cluster.get(f"{path}/free").status == 404)
    found = condition(cluster, "things.example.com", "Terminating")
    assert (found["status"], found["reason"]) == ("True", "InstanceDeletionInProgress")
    again = cluster.post(CRDS, definition("things", "example.com"))
    assert again.status == 409
    assert "object is being deleted" in again.json["message"]
    late = cluster.post(path, {**thing, "metadata": {"name": "new"}})
    assert late.status == 403
    assert late.json["message"] == (
        'things.example.com "new" is forbidden: '
        "create not allowed while custom resource definition is terminating"
    )
    assert cluster.patch(f"{path}/held", {"metadata": {"finalizers": None}}).status == 200
    eventually(lambda: cluster.get(f"{CRDS}/things.example.com").status == 404)


def test_a_definition_of_which_nothing_is_served_can_go(cluster: TestClient) -> None:
    install(cluster, definition("things", "example.com"))
    path = "/apis/example.com/v1/namespaces/default/things"
    thing = {"apiVersion": "example.com/v1", "kind": "Things", "metadata": {"name": "a"}}
    assert cluster.post(path, thing).status == 201
    hidden = [version("v1", storage=True, served=False)]
    assert cluster.patch(f"{CRDS}/things.example.com", {"spec": {"versions": hidden}}).status == 200
    eventually(lambda: cluster.get(path).status == 404)
    cluster.delete(f"{CRDS}/things.example.com")
    eventually(lambda: cluster.get(f"{CRDS}/things.example.com").status == 404)
    install(cluster, definition("things", "example.com"))
    assert cluster.get(path).json["items"] == []


def test_a_definition_in_the_place_of_a_built_in_kind_takes_nothing_with_it(
    cluster: TestClient,
) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    cluster.post(maps, {"metadata": {"name": "mine"}})
    install(cluster, definition("configmaps", ""))
    cluster.delete(f"{CRDS}/configmaps.core")
    eventually(lambda: cluster.get(f"{CRDS}/configmaps.core").status == 404)
    assert cluster.get(f"{maps}/mine").status == 200


@pytest.fixture
def everywhere(shard: ServerProcess) -> Callable[[str], TestClient]:
    return lambda name: make_cluster(shard, name)


def test_metadata_over_all_clusters(
    shard: ServerProcess, everywhere: Callable[[str], TestClient]
) -> None:
    first, second = everywhere("wild1"), everywhere("wild2")
    install(first, definition("wilds", "wild.example.com"))
    both = (version("v1"), version("v2", storage=True))
    install(second, definition("wilds", "wild.example.com", *both))
    for client, api in ((first, "v1"), (second, "v2")):
        thing = {
            "apiVersion": f"wild.example.com/{api}",
            "kind": "Wilds",
            "metadata": {"name": "a"},
            "spec": {"x": 1},
        }
        path = f"/apis/wild.example.com/{api}/namespaces/default/wilds"
        assert client.post(path, thing).status == 201
    star = shard.client(cluster="*")
    path = "/apis/wild.example.com/v1/wilds"
    assert star.get(path).status == 404
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    found = star.get(path, accept=accept).json
    assert found["kind"] == "PartialObjectMetadataList"
    clusters = [i["metadata"]["annotations"]["kcp.io/cluster"] for i in found["items"]]
    assert clusters == ["wild1", "wild2"]
    assert "spec" not in found["items"][0]
    one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    events = star.watch(path, accept=one)
    assert {next(events)["object"]["kind"] for _ in range(2)} == {"PartialObjectMetadata"}
    events.close()
    assert star.get("/apis/wild.example.com/v1/nothings", accept=accept).status == 404


def test_a_write_that_changes_nothing_migrates_to_the_schema(cluster: TestClient) -> None:
    """Fields that were dropped do not come back when the schema allows them again."""

    def with_fields(*names: str) -> list[Object]:
        fields = {name: {"type": "string"} for name in names}
        spec = {"type": "object", "properties": fields}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return [version("v1", storage=True, schema=schema)]

    def change(*names: str) -> None:
        reply = cluster.patch(
            f"{CRDS}/moves.example.com", {"spec": {"versions": with_fields(*names)}}
        )
        assert reply.status == 200, reply

    install(cluster, definition("moves", "example.com", *with_fields("a", "b")))
    path = "/apis/example.com/v1/namespaces/default/moves"
    given = {"apiVersion": "example.com/v1", "kind": "Moves", "spec": {"a": "1", "b": "2"}}
    for name in ("rewritten", "left"):
        made = cluster.post(path, {**given, "metadata": {"name": name}})
        assert made.status == 201, made
    change("a")
    eventually(lambda: cluster.get(f"{path}/left").json["spec"] == {"a": "1"})
    before = cluster.get(f"{path}/rewritten").json["metadata"]["resourceVersion"]
    written = cluster.patch(f"{path}/rewritten", {}).json["metadata"]["resourceVersion"]
    assert written != before
    again = cluster.patch(f"{path}/rewritten", {}).json["metadata"]["resourceVersion"]
    assert again == written
    change("a", "b")
    eventually(lambda: cluster.get(f"{path}/left").json["spec"] == {"a": "1", "b": "2"})
    assert cluster.get(f"{path}/rewritten").json["spec"] == {"a": "1"}
