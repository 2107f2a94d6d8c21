"""Types of clusters: negotiated, published, checked, and never narrowed under stored objects.

The clusters are logical clusters of the control plane itself, with a CRD each.
"""

from __future__ import annotations

import base64
import itertools
from typing import Any

import yaml

from pykcp.testing.apis import BINDINGS, EXPORTS, binding, export
from pykcp.testing.binding import made
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster, name_of
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    IMPORTS,
    NEGOTIATED,
    bind_workload,
    cluster_object,
    condition_of,
)
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/things.example.com"
THINGS = "/apis/example.com/v1/namespaces/default/things"
NAME = "things.v1.example.com"
STRING: Object = {"type": "string"}
_numbers = itertools.count(1)


def definition(fields: Object, scope: str = "Namespaced") -> Object:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": scope, "versions": [version]},
    }


class Behind:
    """A workspace, and clusters behind it."""

    def __init__(self, shard: ServerProcess, workspace: TestClient) -> None:
        self._shard, self.workspace = shard, workspace

    def add(
        self, name: str, fields: Object | None, scope: str = "Namespaced", **spec: Any
    ) -> TestClient:
        """A cluster, with a type of these fields."""
        inside = make_cluster(self._shard, f"physical{next(_numbers)}")
        if fields is not None:
            assert inside.post(CRDS, definition(fields, scope)).status == 201
            eventually(lambda: inside.get("/apis/example.com/v1/things").status == 200)
        kubeconfig = self._kubeconfig(inside)
        obj = cluster_object(name, kubeconfig=kubeconfig, syncResources=["*.example.com"], **spec)
        made(self.workspace, CLUSTERS, obj)
        return inside

    def _kubeconfig(self, inside: TestClient) -> str:
        access = inside.access
        address = f"https://{access.host}:{access.port}{inside.prefix}"
        authority = base64.b64encode(access.ca.encode()).decode()
        cluster = {"server": address, "certificate-authority-data": authority}
        return yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": access.token}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "c",
            }
        )

    def compatible(self, cluster: str) -> Object:
        return condition_of(
            self.workspace, IMPORTS, f"things.{cluster}.v1.example.com", "Compatible"
        )

    def is_compatible(self, cluster: str, message: str | None = None) -> bool:
        found = self.compatible(cluster)
        if message is None:
            return found.get("status") == "True"
        return found.get("status") == "False" and message in found.get("message", "")

    def condition(self, kind: str) -> str:
        return str(condition_of(self.workspace, NEGOTIATED, NAME, kind).get("status"))

    def fields(self) -> set[str]:
        """What the workspace serves."""
        answer = self.workspace.get(CRD)
        if answer.status != 200:
            return set()
        schema = answer.json["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return set(schema["properties"]["spec"]["properties"])

    def state(self, cluster: str) -> str:
        status = self.workspace.get(f"{CLUSTERS}/{cluster}").json.get("status") or {}
        (found,) = status.get("syncedResources") or [{}]
        return str(found.get("state"))


def thing(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_published_type_is_kept_until_a_cluster_may_narrow_it(
    shard: ServerProcess, workspace: TestClient
) -> None:
    behind = Behind(shard, workspace)
    behind.add("a", {"x": STRING, "y": STRING})
    eventually(lambda: behind.condition("Published") == "True")
    assert behind.fields() == {"x", "y"}
    behind.add("b", {"x": STRING})
    eventually(lambda: behind.is_compatible("b", "properties[y]"))
    assert behind.is_compatible("a")
    eventually(lambda: behind.state("b") == "Incompatible")
    eventually(lambda: behind.state("a") == "Accepted")
    # Objects that would lose a field keep it from being narrowed; they are named.
    many = [f"m{number}" for number in range(6)]
    for name, fields in (
        *((name, {"x": "1", "y": "2"}) for name in ("one", *many)),
        ("two", {"x": "1"}),
    ):
        assert workspace.post(THINGS, thing(name, **fields)).status == 201
    path = f"{IMPORTS}/things.b.v1.example.com"
    strategy = {"spec": {"schemaUpdateStrategy": "UpdatePublished"}}
    assert workspace.patch(path, strategy).status == 200
    # The first five of seven.
    first = ", ".join(f"default/{name}" for name in many[:5])
    eventually(lambda: behind.is_compatible("b", "stored objects"), 10)
    assert behind.is_compatible("b", f"7 stored objects do not fit: {first}, …"), behind.compatible(
        "b"
    )["message"]
    assert behind.fields() == {"x", "y"}
    for name in many:
        assert workspace.delete(f"{THINGS}/{name}").status == 200

    def only_one_does_not_fit() -> bool:
        names = {"spec": {"shortNames": [f"t{next(_numbers)}"]}}
        assert workspace.patch(path, names).status == 200
        return behind.is_compatible("b", "1 stored objects do not fit: default/one")

    eventually(only_one_does_not_fit)
    assert behind.fields() == {"x", "y"}
    assert workspace.delete(f"{THINGS}/one").status == 200

    def is_narrowed() -> bool:
        """Any change of the type is a reason to look again, otherwise it takes a while."""
        names = {"spec": {"shortNames": [f"t{next(_numbers)}"]}}
        assert workspace.patch(path, names).status == 200
        return behind.fields() == {"x"}

    eventually(is_narrowed)
    eventually(lambda: behind.is_compatible("b") and behind.is_compatible("a"))
    # Without that cluster, the others decide; its deletion deletes no object.
    assert workspace.delete(f"{CLUSTERS}/b").status == 200
    eventually(lambda: behind.fields() == {"x", "y"})
    assert workspace.get(f"{THINGS}/two").status == 200


def test_types_follow_the_cluster(shard: ServerProcess, workspace: TestClient) -> None:
    behind = Behind(shard, workspace)
    inside = behind.add("a", None)
    eventually(
        lambda: condition_of(workspace, CLUSTERS, "a", "APIImporterReady").get("status") == "True"
    )
    assert inside.post(CRDS, definition({"x": STRING})).status == 201
    eventually(lambda: behind.fields() == {"x"})
    crd = inside.get(CRD).json
    crd["spec"] = definition({"x": STRING, "y": STRING})["spec"]
    column = {"name": "X", "type": "string", "jsonPath": ".spec.x", "priority": 1}
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = [column]
    assert inside.put(CRD, crd).status == 200
    eventually(lambda: behind.fields() == {"x", "y"})
    eventually(
        lambda: (
            workspace.get(CRD).json["spec"]["versions"][0].get("additionalPrinterColumns")
            == [column]
        )
    )
    assert workspace.post(THINGS, thing("one", x="1")).status == 201
    # The type goes: its import goes, and nothing of the workspace.
    assert inside.delete(CRD).status == 200
    eventually(lambda: workspace.get(f"{IMPORTS}/things.a.v1.example.com").status == 404, 20)
    assert workspace.get(f"{THINGS}/one").status == 200
    assert behind.fields() == {"x", "y"}


def test_a_type_made_by_hand_is_not_changed(shard: ServerProcess, workspace: TestClient) -> None:
    assert workspace.post(CRDS, definition({"x": STRING, "z": STRING})).status == 201
    behind = Behind(shard, workspace)
    behind.add("a", {"x": STRING})
    behind.add("b", {"x": STRING, "y": STRING, "z": STRING})
    eventually(lambda: behind.condition("Enforced") == "True")
    eventually(lambda: behind.is_compatible("a", "properties[z]"))
    eventually(lambda: behind.is_compatible("b"))
    assert behind.fields() == {"x", "z"}
    # Without it, the common type of the clusters is served.
    assert workspace.delete(CRD).status == 200
    eventually(lambda: behind.fields() == {"x"})
    eventually(lambda: behind.is_compatible("a") and behind.is_compatible("b"))
    eventually(lambda: behind.condition("Enforced") == "False")


def test_conflicts_concern_one_cluster(shard: ServerProcess, workspace: TestClient) -> None:
    behind = Behind(shard, workspace)
    behind.add("a", {"x": STRING})
    behind.add("b", {"x": {"type": "integer"}})
    behind.add("c", {"x": STRING}, scope="Cluster")
    eventually(lambda: behind.is_compatible("a"))
    eventually(lambda: behind.is_compatible("b", "spec"))
    eventually(lambda: behind.is_compatible("c", "scope has been changed"))
    eventually(lambda: behind.condition("Published") == "True")
    findings = workspace.get(f"{IMPORTS}/things.b.v1.example.com").json["status"]["findings"]
    assert any("properties[x]" in one["path"] for one in findings)


def test_other_workspaces_bind_the_types(shard: ServerProcess, workspace: TestClient) -> None:
    behind = Behind(shard, workspace)
    annotations = {"apiresource.kcp.dev/export": "negotiated"}
    assert workspace.post(EXPORTS, export("compute")).status == 201
    patch = {"metadata": {"annotations": annotations}}
    assert workspace.patch(f"{EXPORTS}/compute", patch).status == 200
    inside = behind.add("a", {"x": STRING})

    def exported() -> list[str]:
        spec = workspace.get(f"{EXPORTS}/compute").json["spec"]
        return [one["schema"] for one in spec.get("resources") or ()]

    (first,) = eventually(exported)
    assert first.startswith("rev-")
    assert first.endswith(".things.example.com")
    consumer = make_cluster(shard, f"consumer{next(_numbers)}")
    made(consumer, BINDINGS, binding("compute", "compute", name_of(workspace)))
    eventually(lambda: consumer.get(THINGS).status == 200)
    assert consumer.post(THINGS, thing("one", x="1")).status == 201
    # A cluster of its own is not compared with what the binding brings.
    bind_workload(consumer)
    made(consumer, CLUSTERS, cluster_object("own", mode="None"))
    made(consumer, IMPORTS, imported_by_hand("own", {"type": "object"}))
    path = (consumer, IMPORTS, "things.own.v1.example.com", "Compatible")
    eventually(lambda: condition_of(*path).get("reason") == "NotCompared")
    assert condition_of(*path)["status"] == "Unknown"
    assert condition_of(*path)["message"] == "not compared: APIBinding compute brings the type"

    def listed() -> list[Object]:
        status = consumer.get(f"{CLUSTERS}/own").json.get("status") or {}
        found = status.get("syncedResources") or ()
        return [one for one in found if one["resource"] == "things"]

    eventually(lambda: [one["state"] for one in listed()] == ["Accepted"])
    # The type is widened: consumers follow.
    crd = inside.get(CRD).json
    crd["spec"] = definition({"x": STRING, "y": STRING})["spec"]
    assert inside.put(CRD, crd).status == 200
    eventually(lambda: exported() not in ([], [first]))
    eventually(
        lambda: consumer.patch(f"{THINGS}/one", {"spec": {"y": "2"}}).json["spec"].get("y") == "2"
    )
    # It is not narrowed any longer, whatever a cluster asks for.
    behind.add("b", {"x": STRING}, schemaUpdateStrategy="UpdatePublished")
    eventually(lambda: behind.is_compatible("b", "APIExport compute exports the type"))


def imported_by_hand(location: str, schema: Object) -> Object:
    return {
        "apiVersion": "apiresource.kcp.dev/v1alpha1",
        "kind": "APIResourceImport",
        "metadata": {"name": f"things.{location}.v1.example.com"},
        "spec": {
            "groupVersion": {"group": "example.com", "version": "v1"},
            "scope": "Namespaced",
            "plural": "things",
            "singular": "thing",
            "kind": "Thing",
            "listKind": "ThingList",
            "location": location,
            "schemaUpdateStrategy": "UpdateUnpublished",
            "openAPIV3Schema": schema,
        },
    }


def test_a_definition_that_is_not_accepted_says_why(workspace: TestClient) -> None:
    made(workspace, CLUSTERS, cluster_object("none", mode="None"))
    schema = {"type": "object", "properties": {"spec": {"items": {"type": "string"}}}}
    made(workspace, IMPORTS, imported_by_hand("none", schema))

    def problem() -> str:
        found = condition_of(workspace, NEGOTIATED, NAME, "Submitted")
        return found["message"] if found.get("reason") == "Rejected" else ""

    assert "spec" in eventually(problem)
    assert condition_of(workspace, NEGOTIATED, NAME, "Published")["status"] == "False"


def test_a_rule_that_one_cluster_cannot_have_is_a_conflict(workspace: TestClient) -> None:
    for name in ("a", "b"):
        made(workspace, CLUSTERS, cluster_object(name, mode="None"))
    fields: Object = {"type": "object", "properties": {"x": {**STRING, "maxLength": 5}}}
    more = {"x": {**STRING, "maxLength": 5}, "y": {**STRING, "maxLength": 5}}
    rule = {"rule": "!has(self.y) || self.x != self.y"}
    ruled: Object = {"type": "object", "properties": more, "x-kubernetes-validations": [rule]}
    for name, spec in (("a", fields), ("b", ruled)):
        schema = {"type": "object", "properties": {"spec": spec}}
        made(workspace, IMPORTS, imported_by_hand(name, schema))

    def message() -> str:
        found = condition_of(workspace, IMPORTS, "things.b.v1.example.com", "Compatible")
        return str(found.get("message", ""))

    # Of the rule, or of what was published already if the first cluster was negotiated alone.
    assert "properties[spec].x-kubernetes-validations" in eventually(message)
    found = condition_of(workspace, IMPORTS, "things.a.v1.example.com", "Compatible")
    assert found["status"] == "True"
    eventually(
        lambda: condition_of(workspace, NEGOTIATED, NAME, "Published").get("status") == "True"
    )
