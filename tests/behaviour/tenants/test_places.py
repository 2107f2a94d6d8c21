"""Whatever alice asks of a place of bob's is answered as if there was nothing, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from pykcp.testing.client import APPLY, JSON_PATCH, MERGE, STRATEGIC, Reply, TestClient
from pykcp.testing.workspaces import WORKSPACES

from .conftest import Place, Tenants

MAPS = "/api/v1/namespaces/default/configmaps"
CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
CROWNS = "/apis/jewels.example/v1/namespaces/default/crowns"
COWBOYS = "/apis/wild.west/v1/namespaces/default/cowboys"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
PROTOBUF = "application/vnd.kubernetes.protobuf"


class Ask(NamedTuple):
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    query: dict[str, str] = {}  # noqa: RUF012  # never changed
    headers: dict[str, str] = {}  # noqa: RUF012

    def of(self, client: TestClient, prefix: str) -> Reply:
        return client.request(
            self.method,
            prefix + self.path,
            self.body,
            self.content_type,
            self.accept,
            dict(self.headers),
            **self.query,
        )


COLLECTIONS = (
    MAPS,
    "/api/v1/configmaps",
    "/api/v1/namespaces",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/nosuch/secrets",
    WORKSPACES,
    TYPES,
    EXPORTS,
    "/apis/apis.kcp.io/v1alpha1/apiresourceschemas",
    "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices",
    "/apis/apis.kcp.io/v1alpha2/apibindings",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    CROWNS,
    COWBOYS,
    "/apis/wild.west/v1/cowboys",
    "/apis/nosuch.example/v1/things",
    "/apis/core.kcp.io/v1alpha1/logicalclusters",
)
ONES = (
    f"{MAPS}/hidden",
    f"{MAPS}/nosuch",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/default/secrets/hidden",
    "/api/v1/namespaces/default/serviceaccounts/default",
    CLUSTER,
    f"{CLUSTER}/status",
    f"{WORKSPACES}/deeper",
    f"{WORKSPACES}/~",
    f"{TYPES}/mine",
    f"{EXPORTS}/cowboys",
    f"{EXPORTS}/cowboys/content",
    f"{CROWNS}/hidden",
    f"{COWBOYS}/hidden",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/crowns.jewels.example",
)
OTHERS = (
    "",
    "/",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/wild.west",
    "/apis/wild.west/v1",
    "/apis/jewels.example/v1",
    "/apis/nosuch.example/v1",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/openapi/v3/apis/wild.west/v1",
    "/openapi/v3/apis/jewels.example/v1",
    "/openapi/v3/apis/nosuch.example/v1",
    "/version",
    "/healthz",
    "/livez",
    "/readyz",
    "/metrics",
    "/debug/fsck",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/nosuch",
    "/services/apiexport",
    "/clusters/root/api",
)
REVIEWS = (
    ("authorization.k8s.io", "SelfSubjectAccessReview", {"resourceAttributes": {"verb": "get"}}),
    ("authorization.k8s.io", "SelfSubjectRulesReview", {"namespace": "default"}),
    (
        "authorization.k8s.io",
        "SubjectAccessReview",
        {"user": "bob", "resourceAttributes": {"verb": "get"}},
    ),
    ("authentication.k8s.io", "SelfSubjectReview", None),
    ("authentication.k8s.io", "TokenReview", {"token": "bob-token"}),
)


def asks(identity: str) -> Iterator[Ask]:
    """Every verb, form and suffix."""
    for path in COLLECTIONS:
        for way in ("", f":{identity}", ":0123"):
            yield Ask("GET", path + way)
            yield Ask("GET", path + way, query={"watch": "true", "timeoutSeconds": "1"})
        yield Ask("GET", path, query={"limit": "1", "labelSelector": "a=b"})
        yield Ask("GET", path, query={"resourceVersion": "1"})
        yield Ask("GET", path, query={"fieldSelector": "metadata.name=hidden"})
        for accept in (TABLE, METADATA_LIST, PROTOBUF):
            yield Ask("GET", path, accept=accept)
        yield Ask("DELETE", path)
        yield Ask("POST", path, {"metadata": {"name": "hidden"}})
        yield Ask("POST", path, {"metadata": {"name": "new"}}, query={"dryRun": "All"})
        yield Ask("OPTIONS", path)
        yield Ask("HEAD", path)
    for path in ONES:
        for accept in ("application/json", TABLE, METADATA, PROTOBUF):
            yield Ask("GET", path, accept=accept)
        yield Ask("GET", path, query={"watch": "true", "timeoutSeconds": "1"})
        yield Ask("DELETE", path)
        yield Ask("DELETE", path, query={"dryRun": "All"})
        yield Ask("PUT", path, {"metadata": {"name": "hidden"}})
        for kind in (MERGE, STRATEGIC):
            yield Ask("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, kind)
        yield Ask("PATCH", path, [{"op": "test", "path": "/a", "value": 1}], JSON_PATCH)
        yield Ask("PATCH", path, {}, APPLY, query={"fieldManager": "me", "force": "true"})
    for path in OTHERS:
        for accept in ("application/json", AGGREGATED, "text/html"):
            yield Ask("GET", path, accept=accept)
        yield Ask("POST", path, {})
    for group, kind, spec in REVIEWS:
        body = {"apiVersion": f"{group}/v1", "kind": kind, **({"spec": spec} if spec else {})}
        yield Ask("POST", f"/apis/{group}/v1/{kind.lower()}s", body)
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    yield Ask("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", token)
    for headers in (
        {"Impersonate-User": "bob"},
        {"Impersonate-User": "bob", "Impersonate-Group": "system:masters"},
        {"X-Kcp-Api-Export-Name": "x", "X-Remote-User": "bob"},
    ):
        yield Ask("GET", MAPS, headers=headers)


OPEN = ("/healthz", "/livez", "/readyz")
IGNORED = {"date", "audit-id", "content-length"}


def told(reply: Reply, place: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """An answer without what says where it was asked, and when."""
    headers = sorted(
        (name.lower(), value.replace(place, "PLACE"))
        for name, value in reply.headers
        if name.lower() not in IGNORED
    )
    return reply.status, headers, reply.body.replace(place.encode(), b"PLACE")


WAYS = (
    "path",
    "name",
    "mixed path",
    "deeper",
    "below nothing",
    "name below",
    "name below nothing",
    "deeper's name",
    "home",
    "home's name",
)
PREFIXES = (
    "/services/apiexport/{}/cowboys/clusters/*",
    "/services/apiexport/{}/nosuch/clusters/*",
    "/services/apiexport/root/tenancy.kcp.io/clusters/{}",
    "/services/initializingworkspaces/{}:mine/clusters/*",
    "/services/terminatingworkspaces/{}:mine/clusters/*",
    "/services/initializingworkspaces/root:universal/clusters/{}",
    "/services/apiresourceschema/{}/clusters/*",
    "/services/migratingworkspaces/{}/clusters/*",
    "/services/replication/{}/cowboys/clusters/*",
    "/services/exports/{}/cowboys/clusters/*",
    "/services/tree/clusters/{}",
    "/services/usage/clusters/{}",
    "/services/cache/shards/root/clusters/{}",
    "/services/cache/shards/*/clusters/{}",
)


def differences(client: TestClient, prefix: str, place: Place, identity: str) -> list[str]:
    def compare_one(ask: Ask) -> str:
        there = told(ask.of(client, prefix.format(place.there)), place.there)
        nowhere = told(ask.of(client, prefix.format(place.nowhere)), place.nowhere)
        if there != nowhere:
            return f"{ask}:\n  there   {there}\n  nowhere {nowhere}"
        return f"{ask}: {there}" if there[0] < 400 and ask.path not in OPEN else ""

    return [found for found in at_once(compare_one, identity) if found]


def at_once(work: Callable[[Ask], str], identity: str) -> list[str]:
    """Several at a time: refusals take their time on purpose."""
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(work, asks(identity)))


def compare(tenants: Tenants, client: TestClient, prefix: str, way: str) -> None:
    found = differences(client, prefix, tenants.places[way], tenants.identity)
    assert not found, "\n".join(found[:10]) + f"\n{len(found)} in all"


@pytest.mark.parametrize("way", WAYS)
def test_nothing_can_be_told_apart(tenants: Tenants, way: str) -> None:
    compare(tenants, tenants.without_place(), "/clusters/{}", way)


@pytest.mark.parametrize("way", ["path", "name", "home"])
def test_nor_by_strangers(tenants: Tenants, way: str) -> None:
    """Somebody without a name, and an account of alice's workspace."""
    compare(tenants, tenants.without_place(""), "/clusters/{}", way)
    account = "/api/v1/namespaces/default/serviceaccounts/default/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = tenants.alice.post(account, body)
    assert made.status == 201, made
    client = tenants.without_place().with_token(made.json["status"]["token"])
    compare(tenants, client, "/clusters/{}", way)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("way", ["path", "name", "home"])
def test_nor_through_a_virtual_workspace(tenants: Tenants, prefix: str, way: str) -> None:
    compare(tenants, tenants.without_place(), prefix, way)


@pytest.mark.parametrize(
    "prefix",
    [
        "/clusters/*",
        "/clusters/system:admin",
        "/clusters/system:bound-crds",
        "/services/cache/shards/root/clusters/*",
        "/services/apiexport/root/tenancy.kcp.io/clusters/*",
    ],
)
def test_not_everything_at_once(tenants: Tenants, prefix: str) -> None:
    """Over all clusters, and in those that belong to the system, there is nothing for alice."""
    client = tenants.without_place()

    def shown(ask: Ask) -> str:
        reply = ask.of(client, prefix)
        is_refused = reply.status >= 400 or ask.path in OPEN
        return "" if is_refused and b"sesame" not in reply.body else f"{ask}: {reply}"

    assert not [found for found in at_once(shown, tenants.identity) if found]


def test_bob_sees_all_of_it(tenants: Tenants) -> None:
    """So that the tests above are about something: his answers differ."""
    client = tenants.without_place("bob")
    for way in WAYS:
        place = tenants.places[way]
        assert client.get(f"/clusters/{place.there}/api/v1/namespaces").status == 200
        assert client.get(f"/clusters/{place.nowhere}/api/v1/namespaces").status in (403, 404)
    reads = [a for a in asks(tenants.identity) if a.method == "GET" and "watch" not in a.query]
    served = [ask.of(tenants.bob, "").status for ask in reads]
    assert served.count(200) > len(served) / 2
