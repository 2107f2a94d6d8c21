"""What an export's owner tries in order to see or touch more than was bound and claimed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pykcp.machinery.kcp.hashes import claim_label_key, claim_label_value
from pykcp.testing.client import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Reply,
    TestClient,
    eventually,
)
from pykcp.testing.exports import APIS, SCHEMAS, Consumer, ExportProvider, accepted, claim, schema
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

MAPS = "/api/v1/configmaps"
OF_DEFAULT = "/api/v1/namespaces/default/configmaps"
HIDDEN = f"{OF_DEFAULT}/hidden"
SHOWN = f"{OF_DEFAULT}/shown"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@dataclass
class Scene:
    """A provider that was granted the ConfigMaps labelled `shown`, and a consumer with two."""

    provider: ExportProvider
    consumer: Consumer

    @property
    def view(self) -> TestClient:
        return self.provider.view(self.consumer.cluster)

    @property
    def everywhere(self) -> TestClient:
        return self.provider.view()

    def hidden(self) -> Object:
        found: Object = self.consumer.client.get(HIDDEN).json
        return found


@pytest.fixture
def scene(shard: ServerProcess) -> Scene:
    asked = claim("configmaps")
    provider = ExportProvider(shard, claims=(asked,), user="provider")
    consumer = provider.consumer(accepted(asked, matchLabels={"shown": "yes"}))
    for name, shown in (("hidden", "no"), ("shown", "yes")):
        body = {"metadata": {"name": name, "labels": {"shown": shown}}, "data": {"word": "sesame"}}
        assert consumer.client.post(OF_DEFAULT, body).status == 201
    return Scene(provider, consumer)


def names(reply: Reply) -> set[str]:
    assert reply.status == 200, reply
    return {item["metadata"]["name"] for item in reply.json["items"]}


# --- labels


def test_claim_labels_made_by_hand(shard: ServerProcess, scene: Scene) -> None:
    """Whoever writes the label, it stays only where the claim is granted."""
    provider, consumer = scene.provider, scene.consumer
    key = claim_label_key(provider.cluster, provider.export)
    forged = {"metadata": {"labels": {key: claim_label_value("", "configmaps")}}}
    assert consumer.client.patch(HIDDEN, forged).status == 200
    assert key not in scene.hidden()["metadata"]["labels"]
    stranger = Consumer(shard)
    made = stranger.client.post(OF_DEFAULT, {"metadata": {"name": "s", **forged["metadata"]}})
    assert made.status == 201, made
    applied = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "s", **forged["metadata"]},
    }
    stranger.client.patch(f"{OF_DEFAULT}/s", applied, APPLY, fieldManager="me", force="true")
    assert names(scene.everywhere.get(MAPS)) == {"shown"}


def test_claim_labels_for_somebody_else(shard: ServerProcess, scene: Scene) -> None:
    """A provider cannot show to another one what it was shown itself, nor take it away."""
    other = ExportProvider(shard, claims=(claim("configmaps"),), user="alice")
    scene.consumer.bind(other)  # grants nothing
    key = claim_label_key(other.cluster, other.export)
    own = claim_label_key(scene.provider.cluster, scene.provider.export)
    labels = {key: claim_label_value("", "configmaps"), own: None}
    changed = scene.view.patch(SHOWN, {"metadata": {"labels": labels}})
    assert changed.status in (200, 403), changed
    now = scene.consumer.client.get(SHOWN).json["metadata"]["labels"]
    assert (key in now, own in now) == (False, True)
    assert names(other.view().get(MAPS)) == set()


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC, JSON_PATCH, APPLY])
def test_patches_of_what_is_hidden(scene: Scene, kind: str) -> None:
    before = scene.hidden()
    patch: Any = {"metadata": {"labels": {"shown": "yes"}}}
    query: dict[str, str] = {}
    if kind == JSON_PATCH:
        patch = [{"op": "replace", "path": "/metadata/labels/shown", "value": "yes"}]
    elif kind == APPLY:
        patch = {"apiVersion": "v1", "kind": "ConfigMap", **patch}
        patch["metadata"]["name"] = "hidden"
        query = {"fieldManager": "me", "force": "true"}
    for more in ({}, {"dryRun": "All"}):
        reply = scene.view.patch(HIDDEN, patch, kind, **query, **more)
        assert reply.status >= 400, reply
        assert b"sesame" not in reply.body
    assert scene.hidden() == before


def test_writes_over_what_is_hidden(scene: Scene) -> None:
    before = scene.hidden()
    body = {"metadata": {"name": "hidden", "labels": {"shown": "yes"}}, "data": {}}
    version = {**body["metadata"], "resourceVersion": before["metadata"]["resourceVersion"]}
    uid = {"preconditions": {"uid": before["metadata"]["uid"]}}
    replies = [
        scene.view.post(OF_DEFAULT, body),
        scene.view.put(HIDDEN, body),
        scene.view.put(HIDDEN, {**body, "metadata": version}),
        scene.view.delete(HIDDEN),
        scene.view.delete(HIDDEN, uid),
    ]
    assert all(reply.status >= 400 and b"sesame" not in reply.body for reply in replies), replies
    for selector in ("shown=no", "shown!=yes", "", "shown in (yes, no)"):
        query = {"labelSelector": selector} if selector else {}
        assert scene.view.delete(OF_DEFAULT, **query).status == 200
    assert scene.hidden() == before


# --- selectors, forms, watches


def test_selectors_and_forms(scene: Scene) -> None:
    for view in (scene.everywhere, scene.view):
        for selector in ("shown=no", "shown!=yes", "!absent", "shown in (yes,no)", "shown"):
            for accept in ("application/json", LIST):
                found = names(view.get(MAPS, labelSelector=selector, accept=accept))
                assert found <= {"shown"}
        for query in (
            {"fieldSelector": "metadata.name=hidden"},
            {"fieldSelector": "metadata.name!=shown"},
        ):
            assert names(view.get(MAPS, **query)) == set()
        rows = view.get(MAPS, accept=TABLE).json["rows"]
        assert [row["cells"][0] for row in rows] == ["shown"]
        for query in ({"limit": 1}, {"resourceVersion": 0}, {"limit": 500}):
            assert names(view.get(MAPS, **query)) == {"shown"}


def test_a_page_of_somebody_elses_list(shard: ServerProcess, scene: Scene) -> None:
    """A token to go on with is only a place: what is seen from there is still the view's."""
    masters = shard.client(cluster="*")
    first = masters.get(MAPS, limit=1).json["metadata"]["continue"]
    here = scene.consumer.client.get(OF_DEFAULT, limit=1).json["metadata"]["continue"]
    for view, path, token in (
        (scene.everywhere, MAPS, first),
        (scene.everywhere, MAPS, here),
        (scene.view, MAPS, here),
        (scene.view, OF_DEFAULT, here),
    ):
        reply = view.get(path, **{"continue": token})
        assert reply.status >= 400 or names(reply) <= {"shown"}, reply


def test_a_watch_shows_nothing_that_is_hidden(scene: Scene) -> None:
    """What leaves the view is deleted for its owner, who does not see what it became."""
    consumer = scene.consumer.client
    watches = [view.watch(MAPS, **query) for view in (scene.everywhere, scene.view)
               for query in ({}, {"labelSelector": "shown!=maybe"}, {"fieldSelector": "metadata.name!=x"})]  # fmt: skip
    for events in watches:
        assert next(events)["object"]["metadata"]["name"] == "shown"
    assert consumer.patch(HIDDEN, {"data": {"word": "alibaba"}}).status == 200
    left = {"metadata": {"labels": {"shown": "no"}}, "data": {"word": "mustafa"}}
    assert consumer.patch(SHOWN, left).status == 200
    assert consumer.patch(SHOWN, {"data": {"word": "cassim"}}).status == 200
    back = {"metadata": {"labels": {"shown": "yes"}}, "data": {"word": "open"}}
    assert consumer.patch(SHOWN, back).status == 200
    for events in watches:
        gone, again = next(events), next(events)
        assert (gone["type"], gone["object"]["data"]) == ("DELETED", {"word": "sesame"})
        assert (again["type"], again["object"]["data"]) == ("ADDED", {"word": "open"})
        events.close()


# --- owners


def test_owner_references_carry_nothing(scene: Scene) -> None:
    """Neither towards what is hidden nor away from it."""
    hidden = scene.hidden()["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "hidden", "uid": hidden["uid"]}
    body = {"metadata": {"name": "child", "ownerReferences": [owner]}}
    assert scene.view.post(OF_DEFAULT, body).status == 201
    assert scene.view.get(HIDDEN).status == 404
    shown = scene.consumer.client.get(SHOWN).json["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "shown", "uid": shown["uid"]}
    scene.consumer.client.patch(HIDDEN, {"metadata": {"ownerReferences": [owner]}})
    assert names(scene.everywhere.get(MAPS)) == {"shown", "child"}
    assert scene.view.get(HIDDEN).status == 404


# --- identities, and resources of the same name


def test_the_same_resource_of_another_provider(shard: ServerProcess) -> None:
    """One group and resource, three origins: each is seen by its own provider alone."""
    provider = ExportProvider(shard, user="provider")
    consumer, bare = provider.consumer(), Consumer(shard)
    consumer.make(provider, "bound")
    other = ExportProvider(shard, "sheriffs", user="alice")
    same = schema("cowboys", provider.group)
    assert other.client.post(SCHEMAS, same).status == 201
    resource = {"name": "cowboys", "group": provider.group, "schema": same["metadata"]["name"]}
    other.change(resources=[resource])
    of_other = Consumer(shard)
    of_other.bind(other)
    path = provider.path(namespace="default")
    cowboy = {"apiVersion": f"{provider.group}/v1", "kind": "Cowboy"}
    made = of_other.client.post(path, {**cowboy, "metadata": {"name": "theirs"}})
    assert made.status == 201, made
    _define(bare.client, same)
    own = {**cowboy, "metadata": {"name": "own"}}
    eventually(lambda: bare.client.post(path, own).status == 201)
    paths = (provider.path(), f"{provider.path()}:{other.identity}")
    seen = [provider.view().get(one) for one in paths]
    assert names(seen[0]) == {"bound"}
    assert seen[1].status >= 400 or names(seen[1]) <= {"bound"}
    assert names(other.view().get(provider.path())) == {"theirs"}
    for cluster in (of_other.cluster, bare.cluster):
        reply = provider.view(cluster).get(provider.path())
        assert reply.status >= 400 or names(reply) == set(), reply


def _define(client: TestClient, like: Object) -> None:
    """A CRD of one's own that looks the same."""
    spec = like["spec"]
    (version,) = spec["versions"]
    served = {**version, "schema": {"openAPIV3Schema": version["schema"]}}
    name = f"{spec['names']['plural']}.{spec['group']}"
    body = {"metadata": {"name": name}, "spec": {**spec, "versions": [served]}}
    assert client.post(CRDS, body).status == 201


def test_identities_that_do_not_fit(shard: ServerProcess) -> None:
    """A claim with an identity is on what that export brings, whatever else has this name."""
    other = ExportProvider(shard, user="alice")
    asked = (
        claim("configmaps", identity=other.identity),
        claim("cowboys", group=other.group, identity="0" * 64),
    )
    provider = ExportProvider(shard, "sheriffs", claims=asked, user="provider")
    consumer = Consumer(shard)
    consumer.bind(other)
    consumer.make(other, "hidden")
    assert consumer.client.post(OF_DEFAULT, {"metadata": {"name": "hidden"}}).status == 201
    body = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": provider.export},
        "spec": {
            "reference": {"export": {"path": provider.cluster, "name": provider.export}},
            "permissionClaims": [accepted(one) for one in asked],
        },
    }
    assert consumer.client.post(f"{APIS}/apibindings", body).status == 201
    for view in (provider.view(), provider.view(consumer.cluster)):
        for path in (MAPS, f"{MAPS}:{other.identity}", other.path(), f"{other.path()}:{'0' * 64}"):
            reply = view.get(path)
            assert reply.status >= 400 or names(reply) == set(), (path, reply)
