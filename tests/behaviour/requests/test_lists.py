"""Lists: in pages, at revisions, by selectors; consistent whatever happens meanwhile."""

from __future__ import annotations

import base64
import json
import threading
from typing import Any

import pytest

from pykcp.testing.client import TestClient

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
ALL_LEASES = "/apis/coordination.k8s.io/v1/leases"


def make(cluster: TestClient, name: str, **labels: str) -> dict[str, Any]:
    body = {"metadata": {"name": name, "labels": labels}, "spec": {"holderIdentity": name}}
    reply = cluster.post(LEASES, body)
    assert reply.status == 201, reply
    made: dict[str, Any] = reply.json["metadata"]
    return made


def names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def pages(cluster: TestClient, limit: int, **query: str) -> list[dict[str, Any]]:
    """All pages of a list, to the last."""
    found = [cluster.get(LEASES, limit=limit, **query).json]
    while token := found[-1]["metadata"].get("continue"):
        found.append(cluster.get(LEASES, limit=limit, **query, **{"continue": token}).json)
    return found


def test_items_come_by_name_and_say_how_many_follow(cluster: TestClient) -> None:
    """Pages hold what was asked for, in order; remainingItemCount counts down."""
    for name in ("c", "a", "e", "b", "d"):
        make(cluster, name)
    found = pages(cluster, 2)
    assert [names(page) for page in found] == [["a", "b"], ["c", "d"], ["e"]]
    assert [p["metadata"].get("remainingItemCount") for p in found] == [3, 1, None]
    assert len({p["metadata"]["resourceVersion"] for p in found}) == 1
    assert found[0]["kind"] == "LeaseList"
    assert "kind" not in found[0]["items"][0]


def test_pages_are_one_snapshot_under_concurrent_writes(cluster: TestClient) -> None:
    """Whatever is made, changed and deleted meanwhile, all pages show the moment of the first."""
    for number in range(40):
        make(cluster, f"n{number:02}", round="0")
    stopping = threading.Event()

    def disturb() -> None:
        number = 0
        while not stopping.is_set():
            cluster.post(LEASES, {"metadata": {"name": f"n{number % 40:02}-extra{number}"}})
            cluster.patch(f"{LEASES}/n{number % 40:02}", {"metadata": {"labels": {"round": "1"}}})
            cluster.delete(f"{LEASES}/n{(number + 20) % 40:02}")
            number += 1

    first = cluster.get(LEASES, limit=3).json
    writer = threading.Thread(target=disturb)
    writer.start()
    try:
        items = list(first["items"])
        token = first["metadata"]["continue"]
        while token:
            page = cluster.get(LEASES, limit=3, **{"continue": token}).json
            items += page["items"]
            token = page["metadata"].get("continue")
    finally:
        stopping.set()
        writer.join()
    assert [i["metadata"]["name"] for i in items] == [f"n{n:02}" for n in range(40)]
    assert {i["metadata"]["labels"]["round"] for i in items} == {"0"}


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"resourceVersionMatch": "Exact"}, 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422,
            'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'),
        ({"resourceVersionMatch": "Nosuch", "resourceVersion": "1"}, 422,
            'Unsupported value: "Nosuch": supported values: "Exact", "NotOlderThan"'),
        ({"resourceVersion": "x"}, 400, 'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint'),
        ({"continue": "nonsense"}, 400, "continue key is not valid"),
        ({"resourceVersion": "99999999", "resourceVersionMatch": "NotOlderThan"}, 504, "Too large resource version"),
        ({"watch": "1", "resourceVersionMatch": "Exact"}, 422, "is forbidden for watch unless sendInitialEvents"),
        ({"watch": "1", "sendInitialEvents": "true"}, 422, "sendInitialEvents requires setting resourceVersionMatch"),
    ],
)  # fmt: skip
def test_queries_that_are_refused(
    cluster: TestClient, query: dict[str, str], code: int, message: str
) -> None:
    """Combinations that make no sense, in kube-apiserver's words."""
    reply = cluster.get(LEASES, **query)
    assert reply.status == code
    assert message in reply.json["message"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/namespaces/default/events/x", 400),
        ("/apis/events.k8s.io/v1/namespaces/default/events/x", 400),
        (f"{LEASES}/x", 500),
    ],
)
def test_items_at_a_version_that_is_no_number(cluster: TestClient, path: str, status: int) -> None:
    """What kube-apiserver does not cache is refused in other words."""
    reply = cluster.get(path, resourceVersion="x")
    assert (reply.status, reply.json.get("reason")) == (
        status,
        "BadRequest" if status == 400 else None,
    )
    assert 'resourceVersion: Invalid value: "x": strconv.ParseUint' in reply.json["message"]


@pytest.mark.parametrize("selector", ["nonsense", "shardRange(object.metadata.uid, '0x0', '0x1')"])
def test_shards_are_not_selected(cluster: TestClient, selector: str) -> None:
    """The feature is alpha and off upstream too: whatever is asked for, all is listed."""
    make(cluster, "a")
    listed = cluster.get(LEASES, shardSelector=selector)
    assert (listed.status, names(listed.json)) == (200, ["a"])
    assert "shardInfo" not in listed.json["metadata"]


def test_exact_revisions(cluster: TestClient) -> None:
    """The state at a revision, without what came later; NotOlderThan gives at least that."""
    make(cluster, "a")
    version = cluster.get(LEASES).json["metadata"]["resourceVersion"]
    make(cluster, "b")
    exact = cluster.get(LEASES, resourceVersion=version, resourceVersionMatch="Exact").json
    assert (names(exact), exact["metadata"]["resourceVersion"]) == (["a"], version)
    newer = cluster.get(LEASES, resourceVersion=version, resourceVersionMatch="NotOlderThan").json
    assert names(newer) == ["a", "b"]
    assert names(cluster.get(LEASES, resourceVersion="0").json) == ["a", "b"]


def test_one_name_at_a_revision(cluster: TestClient) -> None:
    """Only a version that must match exactly leads back; longer names are others."""
    first = make(cluster, "ab", of="us")["resourceVersion"]
    second = make(cluster, "a")["resourceVersion"]
    cluster.patch(f"{LEASES}/a", {"spec": {"holderIdentity": "me"}})
    cluster.delete(f"{LEASES}/ab")

    def holders(name: str, **query: str) -> tuple[list[str], str]:
        listed = cluster.get(LEASES, fieldSelector=f"metadata.name={name}", **query).json
        version = listed["metadata"]["resourceVersion"]
        return [item["spec"]["holderIdentity"] for item in listed["items"]], version

    exact = {"resourceVersionMatch": "Exact"}
    assert holders("a", resourceVersion=first, **exact) == ([], first)
    assert holders("a", resourceVersion=second, **exact) == (["a"], second)
    assert holders("ab", resourceVersion=second, **exact) == (["ab"], second)
    assert holders("ab", resourceVersion=second, labelSelector="of=us", **exact)[0] == ["ab"]
    assert holders("ab", resourceVersion=second, labelSelector="of=them", **exact)[0] == []
    assert holders("a", resourceVersion=second)[0] == ["me"]
    assert holders("a", resourceVersion=second, limit="1")[0] == ["me"]


def test_version_zero_is_not_paged(cluster: TestClient) -> None:
    """As from kube-apiserver's cache: a limit does not count, in a continued list neither."""
    for name in "abcd":
        make(cluster, name)
    assert names(cluster.get(LEASES, resourceVersion="0", limit=2).json) == list("abcd")
    token = cluster.get(LEASES, limit=2).json["metadata"]["continue"]
    rest = cluster.get(LEASES, resourceVersion="0", limit=1, **{"continue": token}).json
    assert (names(rest), rest["metadata"].get("continue")) == (["c", "d"], None)


def test_a_token_cannot_leave_its_list(cluster: TestClient) -> None:
    """A hand-made token that climbs out is refused."""
    content = {"v": "meta.k8s.io/v1", "rv": 1, "start": "../../root/default/x\0"}
    token = base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
    assert cluster.get(LEASES, **{"continue": token}).status == 400


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=web", ["a", "b"]), ("app!=web", ["c", "d"]), ("app in (web, db)", ["a", "b", "c"]),
        ("app notin (web)", ["c", "d"]), ("app", ["a", "b", "c"]), ("!app", ["d"]), ("app=web,tier=1", ["a"]),
        ("tier>1", ["b"]), ("nosuch=x", []),
    ],
)  # fmt: skip
def test_label_selectors(cluster: TestClient, selector: str, expected: list[str]) -> None:
    """Every operator."""
    make(cluster, "a", app="web", tier="1")
    make(cluster, "b", app="web", tier="2")
    make(cluster, "c", app="db")
    make(cluster, "d")
    assert names(cluster.get(LEASES, labelSelector=selector).json) == expected
    assert names(cluster.get(ALL_LEASES, labelSelector=selector).json) == expected


def test_field_selectors(cluster: TestClient) -> None:
    """Name and namespace everywhere, and a kind's own fields."""
    make(cluster, "a")
    make(cluster, "b")
    assert names(cluster.get(LEASES, fieldSelector="metadata.name=b").json) == ["b"]
    assert names(cluster.get(LEASES, fieldSelector="metadata.name!=b").json) == ["a"]
    assert names(cluster.get(ALL_LEASES, fieldSelector="metadata.namespace=other").json) == []
    namespaces = cluster.get("/api/v1/namespaces", fieldSelector="status.phase=Active").json
    assert "default" in names(namespaces)
    secret = {"metadata": {"name": "s"}, "type": "example.com/x"}
    cluster.post("/api/v1/namespaces/default/secrets", secret)
    found = cluster.get("/api/v1/secrets", fieldSelector="type=example.com/x").json
    assert names(found) == ["s"]


def test_selected_pages_do_not_count_the_rest(cluster: TestClient) -> None:
    """remainingItemCount is left out when something is filtered."""
    for name in "abc":
        make(cluster, name, app="web")
    first, *_ = pages(cluster, 1, labelSelector="app=web")
    assert "remainingItemCount" not in first["metadata"]
    assert [names(p) for p in pages(cluster, 1, labelSelector="app=web")] == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("selector", ["of=us", "of in (us,you),of!=them"])
def test_a_full_page_goes_on_if_there_is_anything_else(cluster: TestClient, selector: str) -> None:
    """Whether what follows is selected is not known yet: upstream does not look, either."""
    make(cluster, "a", of="us")
    assert "continue" not in cluster.get(LEASES, labelSelector=selector, limit="1").json["metadata"]
    version = make(cluster, "b", of="them")["resourceVersion"]
    cluster.delete(f"{LEASES}/b")
    at = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    for query, is_more in (({}, False), (at, True)):
        first = cluster.get(LEASES, labelSelector=selector, limit="1", **query).json
        assert names(first) == ["a"]
        assert ("continue" in first["metadata"]) == is_more
    found = cluster.get(LEASES, **{"limit": "1", "continue": first["metadata"]["continue"]}).json
    assert names(found) == ["b"]


def test_namespaces_are_listed_apart_and_together(cluster: TestClient) -> None:
    """One namespace by its path, all of them without."""
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    make(cluster, "here")
    other = LEASES.replace("default", "other")
    assert cluster.post(other, {"metadata": {"name": "there"}}).status == 201
    assert names(cluster.get(LEASES).json) == ["here"]
    assert names(cluster.get(ALL_LEASES).json) == ["here", "there"]
    assert names(cluster.get(LEASES.replace("default", "nosuch")).json) == []


def test_lists_are_counted_by_resource(cluster: TestClient, root: TestClient) -> None:
    def counted(resource: str) -> int:
        root.prefix = ""
        lines = root.get("/metrics").body.decode().splitlines()
        start = f'apiserver_cache_list_total{{group="",index="",resource="{resource}"}} '
        return next((int(line.removeprefix(start)) for line in lines if line.startswith(start)), 0)

    before = counted("serviceaccounts")
    for _ in range(3):
        assert cluster.get("/api/v1/serviceaccounts?resourceVersion=0").status == 200
    assert cluster.get("/api/v1/serviceaccounts?limit=x").status == 400
    assert cluster.get("/api/v1/nothings").status == 404
    assert counted("serviceaccounts") == before + 3
    assert counted("nothings") == 0


# -- long lists, which are made in pages -----------------------------------------------------------

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@pytest.fixture
def large(cluster: TestClient) -> TestClient:
    """Some four megabytes of objects."""
    for number in range(40):
        name = f"m{number:02}"
        body = {"metadata": {"name": name, "labels": {"n": name}}, "data": {"x": "y" * 100_000}}
        assert cluster.post(CONFIGMAPS, body).status == 201
    return cluster


def test_long_list(large: TestClient) -> None:
    """Whole, in order, with its revision."""
    listed = large.get(CONFIGMAPS, labelSelector="n").json
    assert names(listed) == [f"m{number:02}" for number in range(40)]
    assert listed["kind"] == "ConfigMapList"
    assert listed["metadata"]["resourceVersion"]
    assert all(len(item["data"]["x"]) == 100_000 for item in listed["items"])


def test_long_list_with_a_limit(large: TestClient) -> None:
    """A page larger than those in which it is made says where to go on."""
    first = large.get(CONFIGMAPS, labelSelector="n", limit=30).json
    assert names(first) == [f"m{number:02}" for number in range(30)]
    token = first["metadata"]["continue"]
    rest = large.get(CONFIGMAPS, labelSelector="n", limit=30, **{"continue": token}).json
    assert names(rest) == [f"m{number:02}" for number in range(30, 40)]
    assert not rest["metadata"].get("continue")
    counted = large.get(CONFIGMAPS, limit=30).json["metadata"]
    assert counted["remainingItemCount"] == 11  # kube-root-ca.crt is one of them


@pytest.mark.parametrize("limit", [0, 35])
@pytest.mark.parametrize("form", [TABLE, PARTIAL, "application/yaml", "application/json;pretty=1"])
def test_long_list_in_other_forms(large: TestClient, form: str, limit: int) -> None:
    """Tables and metadata are made in pages as well."""
    reply = large.get(CONFIGMAPS, labelSelector="n", limit=limit, accept=form)
    assert reply.status == 200
    if form == "application/yaml":
        assert reply.body.count(b"\n- data:") == (limit or 40)
        return
    listed = reply.json
    items = listed["rows"] if form == TABLE else listed["items"]
    found = [(i["object"] if form == TABLE else i)["metadata"]["name"] for i in items]
    assert found == [f"m{number:02}" for number in range(limit or 40)]
    assert bool(listed["metadata"].get("continue")) == bool(limit)
    if form == TABLE:
        assert [c["name"] for c in listed["columnDefinitions"]] == ["Name", "Data", "Age"]


def test_long_list_is_one_snapshot(large: TestClient) -> None:
    """What is written while a list is on its way is not in it."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            large.patch(f"{CONFIGMAPS}/m39", {"data": {"n": str(number)}})
            large.patch(f"{CONFIGMAPS}/m00", {"data": {"n": str(number)}})
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            items = large.get(CONFIGMAPS, labelSelector="n").json["items"]
            assert len(items) == 40
            first, last = (int(item["data"].get("n", -1)) for item in (items[0], items[-1]))
            assert last - first in (0, 1)
    finally:
        stop.set()
        writer.join()


def test_watch_begins_with_a_long_list(large: TestClient) -> None:
    """All of it, then what is new."""
    query = {"watch": "1", "labelSelector": "n", "timeoutSeconds": "2"}
    lines = large.get(CONFIGMAPS, **query).body.splitlines()
    found = [json.loads(line)["object"]["metadata"]["name"] for line in lines]
    assert found == [f"m{number:02}" for number in range(40)]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        ALL_LEASES,
        f"{ALL_LEASES}?fieldSelector=metadata.namespace%3Ddefault",
    ],
)
def test_pages_together_are_the_list(cluster: TestClient, path: str) -> None:
    """With and without a namespace; the namespace in the path, in a selector or in neither."""
    for name in ("a", "b", "c"):
        cluster.post("/api/v1/namespaces", {"metadata": {"name": f"page-{name}"}})
        role = {"metadata": {"name": f"page-{name}"}, "rules": []}
        cluster.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        make(cluster, f"page-{name}")
    whole = names(cluster.get(path).json)
    assert len(whole) >= 3
    joint = "&" if "?" in path else "?"
    page = cluster.get(f"{path}{joint}limit=1").json
    found = names(page)
    while token := page["metadata"].get("continue"):
        page = cluster.get(f"{path}{joint}limit=1&continue={token}").json
        assert names(page)
        found += names(page)
    assert found == whole
