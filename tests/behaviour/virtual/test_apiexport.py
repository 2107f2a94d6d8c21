"""An export's view: what a provider sees of its consumers, and what it can do there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykcp.testing.client import APPLY, JSON_PATCH, Reply, TestClient, eventually
from pykcp.testing.exports import APIS, SCHEMAS, Consumer, ExportProvider, accepted, claim, schema
from pykcp.testing.rights import grant
from pykcp.testing.server import ServerProcess

MAPS = "/api/v1/configmaps"
DEFAULT_MAPS = "/api/v1/namespaces/default/configmaps"


def places(reply: Reply) -> set[tuple[str, str]]:
    """Cluster and name of every item."""
    assert reply.status == 200, reply
    return {place(item) for item in reply.json["items"]}


def place(obj: dict[str, Any]) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata["annotations"]["kcp.io/cluster"], metadata["name"]


def message(reply: Reply) -> str:
    text: str = reply.json["message"]
    return text


def test_all_consumers_at_once(shard: ServerProcess) -> None:
    provider = ExportProvider(shard, "cowboys", "sheriffs", user="provider")
    one, two = provider.consumer(), provider.consumer()
    other = ExportProvider(shard, user="alice")
    third = other.consumer()
    for consumer, name in ((one, "joe"), (two, "joe"), (two, "jane")):
        consumer.make(provider, name)
    third.make(other, "jim")
    view = provider.view()
    assert places(view.get(provider.path())) == {
        (one.cluster, "joe"),
        (two.cluster, "joe"),
        (two.cluster, "jane"),
    }
    assert places(view.get(provider.path("sheriffs"))) == set()
    assert places(view.get(f"{APIS}/apibindings")) == {
        (one.cluster, provider.export),
        (two.cluster, provider.export),
    }
    assert places(provider.view(one.cluster).get(provider.path())) == {(one.cluster, "joe")}
    pages = view.get(provider.path(), limit=2).json
    rest = view.get(provider.path(), limit=2, **{"continue": pages["metadata"]["continue"]}).json
    assert (len(pages["items"]), len(rest["items"])) == (2, 1)


def test_a_new_resource_is_there_at_once(shard: ServerProcess) -> None:
    """As soon as the export names it, not when its consumers are bound again."""
    provider = ExportProvider(shard, user="provider")
    consumer = provider.consumer()
    consumer.make(provider, "joe")
    views = provider.view(), provider.view(consumer.cluster)
    for view in views:
        assert view.get(provider.path("sheriffs")).status in (403, 404)
        assert len(places(view.get(provider.path()))) == 1
    made = schema("sheriffs", provider.group)
    assert provider.client.post(SCHEMAS, made).status == 201
    provider.change(
        resources=[
            {"name": plural, "group": provider.group, "schema": f"today.{plural}.{provider.group}"}
            for plural in ("cowboys", "sheriffs")
        ]
    )
    for view in views:
        assert places(view.get(provider.path("sheriffs"))) == set()
        found = view.get(f"/apis/{provider.group}/v1").json["resources"]
        assert "sheriffs" in [r["name"] for r in found]


def test_a_consumer_whose_own_crd_is_in_the_way(shard: ServerProcess) -> None:
    """A binding that never was complete gives its provider nothing."""
    provider = ExportProvider(shard, user="provider")
    consumer = Consumer(shard)
    names = {"plural": "cowboys", "singular": "cowboy", "kind": "Cowboy", "listKind": "CowboyList"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"cowboys.{provider.group}"},
        "spec": {
            "group": provider.group,
            "names": names,
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert consumer.client.post(crds, crd).status == 201
    eventually(lambda: consumer.client.get(provider.path()).status == 200)
    reference = {"path": provider.cluster, "name": provider.export}
    binding = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": provider.export},
        "spec": {"reference": {"export": reference}},
    }
    assert consumer.client.post(f"{APIS}/apibindings", binding).status == 201
    path = f"{APIS}/apibindings/{provider.export}"
    eventually(lambda: b"NamingConflicts" in consumer.client.get(path).body)
    assert provider.view(consumer.cluster).get(provider.path()).status == 403


def test_watch_over_all(shard: ServerProcess) -> None:
    """One watch follows consumers that come later, too."""
    provider = ExportProvider(shard, user="provider")
    events = provider.view().watch(provider.path())
    one = provider.consumer()
    one.make(provider, "joe")
    first = next(events)
    assert (first["type"], place(first["object"])) == ("ADDED", (one.cluster, "joe"))
    two = provider.consumer()
    two.make(provider, "jane")
    second = next(events)
    assert (second["type"], place(second["object"])) == ("ADDED", (two.cluster, "jane"))
    two.client.delete(f"{provider.path(namespace='default')}/jane")
    third = next(events)
    assert (third["type"], place(third["object"])) == ("DELETED", (two.cluster, "jane"))
    events.close()


def test_writes_into_a_consumer(shard: ServerProcess) -> None:
    provider = ExportProvider(shard, user="provider")
    consumer = provider.consumer()
    consumer.make(provider, "joe", x=1)
    view, path = provider.view(consumer.cluster), provider.path(namespace="default")
    live = view.get(f"{path}/joe").json
    assert view.patch(f"{path}/joe/status", {"status": {"ok": True}}).status == 200
    assert view.patch(f"{path}/joe", {"spec": {"y": 2}}).json["spec"] == {"x": 1, "y": 2}
    live = view.get(f"{path}/joe").json
    live["spec"]["z"] = 3
    assert view.put(f"{path}/joe", live).status == 200
    applied = {
        "apiVersion": f"{provider.group}/v1",
        "kind": "Cowboy",
        "metadata": {"name": "jane"},
        "spec": {"a": 1},
    }
    done = view.patch(f"{path}/jane", applied, APPLY, fieldManager="me")
    assert done.status == 201, done
    assert view.delete(f"{path}/jane").status == 200
    assert places(view.get(provider.path())) == {(consumer.cluster, "joe")}
    assert view.delete(path).status == 200
    assert places(consumer.client.get(provider.path())) == set()
    # Over all clusters one can only read.
    for method in ("POST", "DELETE"):
        assert provider.view().request(method, provider.path(), applied).status == 405


def test_who_may_use_it(shard: ServerProcess) -> None:
    provider = ExportProvider(shard, user="provider")
    consumer = provider.consumer()
    for user in ("bob",):
        for cluster in ("*", consumer.cluster):
            for path in (provider.path(), "/apis", f"{APIS}/apibindings"):
                reply = provider.view(cluster, user).get(path)
                assert reply.status == 403, (cluster, path)
                assert message(reply).endswith("access denied")
    grant(provider.client, "bob", "list", "apiexports/content", "apis.kcp.io", provider.export)
    assert provider.view("*", "bob").get(provider.path()).status == 200
    assert provider.view("*", "bob").get("/apis").status == 403
    made = {"apiVersion": f"{provider.group}/v1", "kind": "Cowboy", "metadata": {"name": "x"}}
    view = provider.view(consumer.cluster, "bob")
    assert view.post(provider.path(namespace="default"), made).status == 403
    # Rights in the consumer's workspace do not help, those on another export neither.
    grant(consumer.client, "carol", "*", "*", "*")
    assert provider.view(consumer.cluster, "carol").get(provider.path()).status == 403


def test_an_export_that_is_not_there(shard: ServerProcess) -> None:
    provider = ExportProvider(shard, user="provider")
    grant(provider.client, "provider", "*", "apiexports/content", "apis.kcp.io")
    provider.export = "nothere"
    path = f"/services/apiexport/{provider.cluster}/nothere/clusters/*/apis"
    reply = provider.view().get("/apis")
    assert (reply.status, reply.body.decode()) == (
        500,
        (
            f'Internal Server Error: "{path}": '
            'API export not found: apiexport.apis.kcp.io "nothere" not found\n'
        ),
    )
    assert provider.view(user="bob").get("/apis").status == 403
    masters = provider.view(user="").get("/apis")
    assert (masters.status, masters.body) == (404, b"404 page not found\n")


def test_claims_show_what_was_accepted(shard: ServerProcess) -> None:
    asked = (claim("configmaps"), claim("secrets"))
    provider = ExportProvider(shard, claims=asked, user="provider")
    yes = provider.consumer(accepted(asked[0]))
    no = provider.consumer({**accepted(asked[0]), "state": "Rejected"})
    for consumer in (yes, no):
        assert consumer.client.post(DEFAULT_MAPS, {"metadata": {"name": "m"}}).status == 201
    seen = places(provider.view().get(MAPS))
    assert (yes.cluster, "m") in seen
    assert {cluster for cluster, _ in seen} == {yes.cluster}
    assert provider.view(yes.cluster).get(f"{DEFAULT_MAPS}/m").status == 200
    for path in (MAPS, f"{DEFAULT_MAPS}/m"):
        assert provider.view(no.cluster).get(path).status == 403
    # Claimed, but not accepted; and what nobody claimed.
    assert provider.view(yes.cluster).get("/api/v1/secrets").status == 403
    assert places(provider.view().get("/api/v1/secrets")) == set()
    for cluster in ("*", yes.cluster):
        assert provider.view(cluster).get("/api/v1/serviceaccounts").status in (403, 404)
    made = provider.view(yes.cluster).post(DEFAULT_MAPS, {"metadata": {"name": "new"}})
    assert made.status == 201, made
    assert (yes.cluster, "new") in places(provider.view().get(MAPS))


def test_claim_verbs(shard: ServerProcess) -> None:
    asked = claim("configmaps", "get", "list", "create")
    provider = ExportProvider(shard, claims=(asked,), user="provider")
    granted = {**asked, "verbs": ["get", "list", "update"]}
    consumer = provider.consumer(accepted(granted))
    consumer.client.post(DEFAULT_MAPS, {"metadata": {"name": "m"}})
    view = provider.view(consumer.cluster)
    assert view.get(f"{DEFAULT_MAPS}/m").status == 200
    assert view.get(DEFAULT_MAPS).status == 200
    # Only one side named these.
    assert view.post(DEFAULT_MAPS, {"metadata": {"name": "n"}}).status == 403
    assert view.patch(f"{DEFAULT_MAPS}/m", {"data": {"a": "b"}}).status == 403
    assert view.delete(f"{DEFAULT_MAPS}/m").status == 403


def test_applying_what_is_not_there(shard: ServerProcess) -> None:
    """It needs the claim's verb to create as well."""
    asked = claim("configmaps", "get", "patch", "create")
    provider = ExportProvider(shard, claims=(asked,), user="provider")
    wary = provider.consumer(accepted({**asked, "verbs": ["get", "patch"]}))
    open_one = provider.consumer(accepted(asked))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    path = f"{DEFAULT_MAPS}/m"
    refused = provider.view(wary.cluster).patch(path, body, APPLY, fieldManager="me")
    assert (refused.status, "cannot create" in message(refused)) == (403, True)
    done = provider.view(open_one.cluster).patch(path, body, APPLY, fieldManager="me")
    assert done.status == 201, done


def test_claim_selectors(shard: ServerProcess) -> None:
    asked = (claim("configmaps"), claim("secrets"))
    provider = ExportProvider(shard, claims=asked, user="provider")
    expression = {"key": "tier", "operator": "In", "values": ["a", "b"]}
    consumer = provider.consumer(
        accepted(asked[0], matchLabels={"team": "west"}),
        accepted(asked[1], matchExpressions=[expression]),
    )
    for name, labels in (("in", {"team": "west"}), ("out", {"team": "east"})):
        body = {"metadata": {"name": name, "labels": labels}}
        assert consumer.client.post(DEFAULT_MAPS, body).status == 201
    view = provider.view(consumer.cluster)
    assert places(view.get(DEFAULT_MAPS)) == {(consumer.cluster, "in")}
    assert view.get(f"{DEFAULT_MAPS}/out").status == 404
    assert (
        view.patch(f"{DEFAULT_MAPS}/out", {"metadata": {"labels": {"team": "west"}}}).status == 404
    )
    assert view.delete(f"{DEFAULT_MAPS}/out").status == 404
    made = view.post(DEFAULT_MAPS, {"metadata": {"name": "new"}})
    assert (made.status, made.json["metadata"]["labels"]["team"]) == (201, "west")
    wrong = view.post(DEFAULT_MAPS, {"metadata": {"name": "w", "labels": {"team": "east"}}})
    assert (wrong.status, message(wrong)) == (
        403,
        'configmaps "w" is forbidden: protected label team must have value west',
    )
    secrets = "/api/v1/namespaces/default/secrets"
    wrong = view.post(secrets, {"metadata": {"name": "s"}})
    assert (wrong.status, message(wrong)) == (
        403,
        'secrets "s" is forbidden: object does not match required labels',
    )
    good = view.post(secrets, {"metadata": {"name": "s", "labels": {"tier": "a"}}})
    assert good.status == 201
    assert view.patch(f"{secrets}/s", {"metadata": {"labels": {"tier": "c"}}}).status == 403
    kept = view.patch(f"{DEFAULT_MAPS}/new", {"metadata": {"labels": {"team": None}}})
    assert (kept.status, kept.json["metadata"]["labels"]["team"]) == (200, "west")


def test_a_selector_that_changes(shard: ServerProcess) -> None:
    """What a consumer shows, it may narrow; not for claims on other exports, as in kcp."""
    other = ExportProvider(shard, "sheriffs")
    asked = (
        claim("configmaps"),
        claim("sheriffs", group=other.group, identity=other.identity),
    )
    provider = ExportProvider(shard, claims=asked, user="provider")
    consumer = Consumer(shard)
    consumer.bind(other)
    consumer.bind(provider, *(accepted(one) for one in asked))
    for name, team in (("in", "west"), ("out", "east")):
        body = {"metadata": {"name": name, "labels": {"team": team}}}
        assert consumer.client.post(DEFAULT_MAPS, body).status == 201
    path = f"{APIS}/apibindings/{provider.export}"
    narrow = accepted(asked[0], matchLabels={"team": "west"})
    changed = {"spec": {"permissionClaims": [narrow, accepted(asked[1])]}}
    assert consumer.client.patch(path, changed).status == 200
    eventually(lambda: places(provider.view().get(MAPS)) == {(consumer.cluster, "in")})
    refused = {"spec": {"permissionClaims": [narrow, accepted(asked[1], matchLabels={"a": "b"})]}}
    reply = consumer.client.patch(path, refused)
    assert (reply.status, message(reply).rpartition(": ")[2]) == (
        422,
        "Permission claim selector is immutable",
    )


def test_consumers_out_of_use(shard: ServerProcess) -> None:
    """An inactive consumer is closed to its providers, too; a lost one is forgotten."""
    provider = ExportProvider(shard, user="provider")
    consumer = provider.consumer()
    consumer.make(provider, "joe")
    view = provider.view(consumer.cluster)
    assert view.get(provider.path()).status == 200
    path = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    mark = {"metadata": {"annotations": {"core.kcp.io/inactive": "true"}}}
    assert consumer.client.patch(path, mark).status == 200
    refused = eventually(lambda: _refused(view.get(provider.path())))
    assert "inactive" in refused.body.decode()
    unmark = {"metadata": {"annotations": {"core.kcp.io/inactive": None}}}
    assert consumer.client.patch(path, unmark).status == 200
    eventually(lambda: view.get(provider.path()).status == 200)
    events = provider.view().watch(provider.path())
    assert next(events)["type"] == "ADDED"
    assert consumer.client.delete(f"{APIS}/apibindings/{provider.export}").status == 200
    while next(events)["type"] != "DELETED":
        pass
    events.close()
    eventually(lambda: _refused(view.get(provider.path())))
    assert places(provider.view().get(f"{APIS}/apibindings")) == set()


def _refused(reply: Reply) -> Reply | None:
    return reply if reply.status == 403 else None


def test_claims_on_other_exports(shard: ServerProcess) -> None:
    """By identity: the claimed export's own policy has a say as well."""
    other = ExportProvider(shard, "sheriffs")
    asked = claim("sheriffs", group=other.group, identity=other.identity)
    provider = ExportProvider(shard, claims=(asked,), user="provider")
    consumer = Consumer(shard)
    consumer.bind(other)
    consumer.bind(provider, accepted(asked))
    consumer.make(other, "sam", "sheriffs")
    path = other.path("sheriffs")
    view = provider.view(consumer.cluster)
    assert places(view.get(path)) == {(consumer.cluster, "sam")}
    assert places(provider.view().get(path)) == {(consumer.cluster, "sam")}
    stranger = Consumer(shard)
    stranger.bind(provider, accepted(asked))
    assert places(provider.view(stranger.cluster).get(path)) == set()
    body = {"apiVersion": f"{other.group}/v1", "kind": "Sheriff", "metadata": {"name": "x"}}
    refused = provider.view(stranger.cluster).post(other.path("sheriffs", "default"), body)
    assert refused.status in (404, 405)
    other.change(maximalPermissionPolicy={"local": {}})
    eventually(lambda: view.get(path).status == 403)
    assert provider.view().get(path).status == 403
    grant(other.client, "apis.kcp.io:binding:provider", "list", "sheriffs", other.group)
    eventually(lambda: view.get(path).status == 200)


def started_watch(view: TestClient, path: str) -> Iterator[Any]:
    """A watch that has begun."""
    events = view.watch(
        path,
        sendInitialEvents="true",
        allowWatchBookmarks="true",
        resourceVersionMatch="NotOlderThan",
    )
    while next(events)["type"] != "BOOKMARK":
        pass
    return events


def test_a_claimed_resource_that_comes_and_goes(shard: ServerProcess) -> None:
    """The view follows the exports of the identity, whatever else was claimed of them before."""
    owner = ExportProvider(shard, user="alice")
    asked = tuple(
        claim(plural, group=owner.group, identity=owner.identity)
        for plural in ("cowboys", "sheriffs")
    )
    provider = ExportProvider(shard, claims=asked, user="provider")
    view = provider.view()
    sheriffs = owner.path("sheriffs")
    assert view.get(owner.path()).status == 200
    assert view.get(sheriffs).status == 404
    both = [
        {"name": plural, "group": owner.group, "schema": f"today.{plural}.{owner.group}"}
        for plural in ("cowboys", "sheriffs")
    ]
    owner.change(resources=both)
    assert view.get(sheriffs).status == 404
    assert owner.client.post(SCHEMAS, schema("sheriffs", owner.group)).status == 201
    assert view.get(sheriffs).status == 200
    watched = started_watch(view, sheriffs)
    owner.change(resources=both[:1])
    for _ in watched:
        pass  # until it ends
    assert view.get(sheriffs).status == 404


def test_events_of_both_groups(shard: ServerProcess) -> None:
    provider = ExportProvider(shard, claims=(claim("events"),), user="provider")
    consumer = provider.consumer(accepted(claim("events")))
    body = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "x"},
        "reason": "Because",
    }
    made = provider.view(consumer.cluster).post("/api/v1/namespaces/default/events", body)
    assert made.status == 201, made
    for path in ("/api/v1/events", "/apis/events.k8s.io/v1/events"):
        assert places(provider.view().get(path)) == {(consumer.cluster, "e")}
        assert provider.view(consumer.cluster).get(path).status == 200


def test_reviews(shard: ServerProcess) -> None:
    """Claimed reviews are answered for the consumer's workspace."""
    group = "authorization.k8s.io"
    asked = (
        claim("subjectaccessreviews", "create", group=group),
        claim("tokenreviews", "create", group="authentication.k8s.io"),
    )
    provider = ExportProvider(shard, claims=asked, user="provider")
    consumer = provider.consumer(*(accepted(one) for one in asked))
    grant(consumer.client, "carol", "get", "secrets", "")
    review = {
        "apiVersion": f"{group}/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "carol", "resourceAttributes": {"verb": "get", "resource": "secrets"}},
    }
    path = f"/apis/{group}/v1/subjectaccessreviews"
    reply = provider.view(consumer.cluster).post(path, review)
    assert (reply.status, reply.json["status"]["allowed"]) == (201, True)
    token = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "carol-token"},
    }
    reply = provider.view(consumer.cluster).post(
        "/apis/authentication.k8s.io/v1/tokenreviews", token
    )
    assert reply.json["status"]["user"]["username"] == "carol"
    assert provider.view().post(path, review).status == 405


def test_discovery_and_openapi(shard: ServerProcess) -> None:
    provider = ExportProvider(shard, claims=(claim("configmaps"),), user="provider")
    view = provider.view()
    groups = [g["name"] for g in view.get("/apis").json["groups"]]
    assert groups == ["apis.kcp.io", provider.group]
    listed = view.get(f"/apis/{provider.group}/v1").json["resources"]
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    assert [(r["name"], r["verbs"]) for r in listed] == [
        ("cowboys", verbs),
        ("cowboys/status", ["get", "patch", "update"]),
    ]
    (bindings,) = view.get(f"{APIS}").json["resources"]
    assert (bindings["name"], bindings["verbs"]) == ("apibindings", ["get", "list", "watch"])
    core = view.get("/api/v1").json["resources"]
    assert [(r["name"], r["verbs"]) for r in core] == [("configmaps", verbs)]
    index = view.get("/openapi/v3").json["paths"]
    url = index[f"apis/{provider.group}/v1"]["serverRelativeURL"]
    assert url.startswith(view.prefix)
    view.prefix = ""
    document = view.get(url).json
    assert f"/apis/{provider.group}/v1/cowboys" in document["paths"]
    assert not any("secrets" in path for path in document["paths"])


def test_a_changed_export(shard: ServerProcess) -> None:
    """Watches of what an export no longer has end; the others go on."""
    asked = (claim("configmaps"),)
    provider = ExportProvider(shard, claims=asked, user="provider")
    consumer = provider.consumer(accepted(asked[0]))
    maps = provider.view().watch(MAPS)
    cowboys = provider.view().watch(provider.path())
    next(maps)  # the certificates of the namespace
    provider.change(permissionClaims=[])
    for _ in maps:
        pass  # until it ends
    eventually(lambda: provider.view().get(MAPS).status == 404)
    consumer.make(provider, "joe")
    assert place(next(cowboys)["object"]) == (consumer.cluster, "joe")
    newer = schema("cowboys", provider.group, "tomorrow", hat={"type": "string"})
    assert (
        provider.client.post("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", newer).status == 201
    )
    name = newer["metadata"]["name"]
    provider.change(resources=[{"name": "cowboys", "group": provider.group, "schema": name}])
    for _ in cowboys:
        pass


def test_a_large_schema_before_and_after_it_is_bound(shard: ServerProcess) -> None:
    provider = ExportProvider(shard, user="provider")
    fields: dict[str, Any] = {f"p{n}": {"type": "string", "maxLength": 9} for n in range(3_000)}
    large = schema("sheriffs", provider.group, **fields)
    assert provider.client.post(SCHEMAS, large).status == 201
    name = large["metadata"]["name"]
    entry = {"name": "sheriffs", "group": provider.group, "schema": name}
    provider.change(resources=[entry])
    view = provider.view()
    listed = view.get(f"/apis/{provider.group}/v1").json["resources"]
    assert [r["name"] for r in listed] == ["sheriffs", "sheriffs/status"]
    assert places(view.get(provider.path("sheriffs"))) == set()
    document = view.get(f"/openapi/v3/apis/{provider.group}/v1")
    assert "p2999" in str(document.json["components"]["schemas"])
    consumer = provider.consumer()
    consumer.make(provider, "joe", "sheriffs")
    assert places(view.get(provider.path("sheriffs"))) == {(consumer.cluster, "joe")}


def test_changes_while_views_are_watched(shard: ServerProcess) -> None:
    """Watches are handed over from view to view, however often the export changes."""
    provider = ExportProvider(shard, user="provider")
    consumer = provider.consumer()
    cowboys = started_watch(provider.view(), provider.path())
    for number in range(20):
        provider.change(permissionClaims=[claim("configmaps")] * (number % 2))
    consumer.make(provider, "joe")
    event = next(event for event in cowboys if event["type"] != "BOOKMARK")
    assert place(event["object"]) == (consumer.cluster, "joe")
    provider.change(resources=[])
    for _ in cowboys:
        pass  # until it ends


def test_no_trick_shows_more(shard: ServerProcess) -> None:
    asked = (claim("configmaps"),)
    provider = ExportProvider(shard, claims=asked, user="provider")
    other = ExportProvider(shard, user="alice")
    consumer = provider.consumer(accepted(asked[0], matchLabels={"shown": "yes"}))
    consumer.bind(other)
    consumer.make(other, "hidden")
    secret = {"metadata": {"name": "hidden", "labels": {"shown": "no"}}, "data": {"a": "b"}}
    assert consumer.client.post(DEFAULT_MAPS, secret).status == 201
    shown = {"metadata": {"name": "shown", "labels": {"shown": "yes"}}}
    assert consumer.client.post(DEFAULT_MAPS, shown).status == 201
    everything = {(consumer.cluster, "shown")}
    for view in (provider.view(), provider.view(consumer.cluster)):
        for selector in ("shown=no", "shown!=yes", "!x", "shown in (yes,no)", "shown"):
            assert places(view.get(MAPS, labelSelector=selector)) <= everything
        assert places(view.get(MAPS, fieldSelector="metadata.name=hidden")) == set()
        # Other resources of the consumer, by name, identity, or through another group.
        for path in (
            other.path(),
            f"{other.path()}:{other.identity}",
            f"{provider.path()}:{other.identity}",
            "/api/v1/secrets",
            f"{MAPS}:{other.identity}",
            "/apis/tenancy.kcp.io/v1alpha1/workspaces",
        ):
            assert view.get(path).status in (403, 404), path
    view = provider.view(consumer.cluster)
    one = f"{DEFAULT_MAPS}/hidden"
    assert view.get(one).status == 404
    label = [{"op": "replace", "path": "/metadata/labels/shown", "value": "yes"}]
    assert view.patch(one, label, JSON_PATCH).status == 404
    assert view.put(one, {"metadata": {"name": "hidden"}}).status in (404, 409)
    assert view.delete(one).status == 404
    assert view.delete(DEFAULT_MAPS).status == 200
    assert consumer.client.get(one).status == 200
    # Objects with claim labels of one's own making, in clusters that granted nothing.
    stranger = Consumer(shard)
    forged = consumer.client.get(f"{DEFAULT_MAPS}/hidden").json["metadata"].get("labels", {})
    assert not any(key.startswith("claimed.") for key in forged)
    assert provider.view(stranger.cluster).get(MAPS).status == 403
    # Owner references and patches do not carry anything into the view.
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "shown", "uid": "0"}
    consumer.client.patch(one, {"metadata": {"ownerReferences": [owner]}})
    assert provider.view().get(MAPS, labelSelector="shown=no").json["items"] == []
    bindings = provider.view(consumer.cluster).get(f"{APIS}/apibindings")
    assert places(bindings) == {(consumer.cluster, provider.export)}
    assert view.patch(f"{APIS}/apibindings/{provider.export}", {"spec": {}}).status == 403
    for header in ("Impersonate-User", "Impersonate-Group"):
        spoofed = {header: "system:masters", "Impersonate-User": "root"}
        assert view.get(MAPS, headers=spoofed).status == 403


@pytest.mark.parametrize("path", ["/api/v1/namespaces/default/configmaps"])
def test_one_namespace_of_all_clusters(shard: ServerProcess, path: str) -> None:
    provider = ExportProvider(shard, claims=(claim("configmaps"),), user="provider")
    reply = provider.view().get(path)
    assert (reply.status, message(reply)) == (
        400,
        (
            "cross-cluster LIST and WATCH are required to be cross-namespace, "
            "not scoped to namespace default"
        ),
    )
    one = provider.view().get(f"{path}/any")
    assert (one.status, message(one)) == (404, "the server could not find the requested resource")
