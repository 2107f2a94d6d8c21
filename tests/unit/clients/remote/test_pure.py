"""The parts of remote clients that know no server: errors, paths, what is held."""

from __future__ import annotations

import orjson
import pytest

from pykcp.clients.remote.errors import error_of
from pykcp.clients.remote.held_objects import HeldObjects, terms_of
from pykcp.clients.remote.paths import collection_path, object_path, server_root, with_query
from pykcp.machinery import status
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import CLUSTER_ROLES, CONFIG_MAPS, WORKSPACES
from pykcp.machinery.status import StatusError
from pykcp.machinery.terms import field_term, label_term


@pytest.mark.parametrize(
    "error",
    [
        status.NotFound.resource("", "configmaps", "x"),
        status.Conflict.resource("apps", "deployments", "x", status.OPTIMISTIC_LOCK),
        status.AlreadyExists.resource("", "configmaps", "x"),
        status.Invalid.fields("", "ConfigMap", "x", [status.required("metadata.name")]),
        status.Forbidden.resource("", "secrets", "x", "no"),
        status.BadRequest("what is this"),
        status.Unauthorized(),
        status.NotAcceptable(["application/json"]),
        status.UnsupportedMediaType(["application/json"]),
        status.InternalError("boom"),
        status.TooManyRequests("later", retry_after=3),
        status.ServiceUnavailable("not now", retry_after=1),
        status.Expired("too old resource version", details=False),
    ],
)
def test_errors_come_back_as_they_were_raised(error: StatusError) -> None:
    found = error_of(error.code, orjson.dumps(error.to_json()))
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert (found.code, found.reason) == (error.code, error.reason)
    assert (found.group, found.kind, found.name) == (error.group, error.kind, error.name)
    assert (found.causes, found.retry_after) == (error.causes, error.retry_after)


def test_the_token_of_an_expired_list_comes_along() -> None:
    error = status.Expired("too old", details=False)
    error.continue_token = "abc"
    assert error_of(410, orjson.dumps(error.to_json())).continue_token == "abc"


@pytest.mark.parametrize(
    ("code", "body", "kind", "message"),
    [
        (502, b"", StatusError, "the server answered 502"),
        (
            404,
            b"404 page not found\n",
            status.NotFound,
            "the server answered 404: 404 page not found",
        ),
        (503, b"<html>", status.ServiceUnavailable, "the server answered 503: <html>"),
        (400, b"[]", status.BadRequest, "the server answered 400: []"),
    ],
)
def test_answers_that_are_no_status(
    code: int, body: bytes, kind: type[StatusError], message: str
) -> None:
    found = error_of(code, body)
    assert (type(found), str(found), found.code) == (kind, message, code)


def test_paths() -> None:
    assert collection_path("root:a", CONFIG_MAPS, "n") == (
        "/clusters/root:a/api/v1/namespaces/n/configmaps"
    )
    assert collection_path("*", WORKSPACES) == "/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaces"
    assert collection_path("", CONFIG_MAPS) == "/api/v1/configmaps"
    assert object_path("c", CLUSTER_ROLES, "system:a b/c", subresource="status") == (
        "/clusters/c/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b%2Fc/status"
    )
    assert with_query("/a", {"limit": 2, "continue": "", "labelSelector": "a=b,c"}) == (
        "/a?limit=2&labelSelector=a%3Db%2Cc"
    )
    assert server_root("https://h:1/clusters/root:a") == "https://h:1"
    assert server_root("https://h:1/") == "https://h:1"


def stored(name: str, version: int, cluster: str = "c", **more: object) -> bytes:
    metadata = {"name": name, "resourceVersion": str(version)}
    return orjson.dumps(
        {"metadata": {**metadata, "annotations": {"kcp.io/cluster": cluster}}, **more}
    )


def test_changes_of_what_is_held() -> None:
    held = HeldObjects("core/things")
    created = held.put(stored("a", 1))
    assert created is not None
    assert (created.created, created.deleted, created.revision) == (True, False, 1)
    assert held.put(stored("a", 1)) is None, "it was told already"
    changed = held.put(stored("a", 2))
    assert changed is not None
    assert (changed.created, changed.previous()) == (False, stored("a", 1))
    gone = held.remove(stored("a", 3))
    assert gone is not None
    assert (gone.deleted, gone.previous(), gone.key) == (
        True,
        stored("a", 2),
        ObjectKey("c", "", "a"),
    )
    assert held.remove(stored("a", 3)) is None
    assert len(held) == 0


def test_what_is_not_told_anew_is_gone() -> None:
    held = HeldObjects("core/things")
    for name in "abc":
        held.put(stored(name, 1))
    held.begin_replacing()
    assert held.put(stored("a", 1)) is None
    assert held.put(stored("c", 5)) is not None
    assert [(change.name, change.deleted) for change in held.end_replacing()] == [("b", True)]
    assert [key.name for key in held] == ["a", "c"]


def test_index_entries_follow_the_objects() -> None:
    held = HeldObjects("core/things", entries=lambda cluster, obj: [f"{cluster}:{obj['colour']}"])
    held.put(stored("a", 1, colour="red"))
    held.put(stored("b", 1, colour="red"))
    assert {key.name for key in held.found_by("c:red")} == {"a", "b"}
    held.put(stored("a", 2, colour="blue"))
    assert [key.name for key in held.found_by("c:red")] == ["b"]
    assert [key.name for key in held.found_by("c:blue")] == ["a"]
    held.remove(stored("a", 3, colour="blue"))
    assert list(held.found_by("c:blue")) == []


def test_objects_of_a_server_without_logical_clusters() -> None:
    held = HeldObjects("core/things", cluster="")
    change = held.put(orjson.dumps({"metadata": {"name": "a", "namespace": "n"}}))
    assert change is not None
    assert (change.key, change.revision) == (ObjectKey("", "n", "a"), 0)


def test_terms() -> None:
    terms = terms_of(
        {
            "metadata": {"name": "a", "labels": {"app": "web"}},
            "type": "Opaque",
            "status": {"phase": "Active", "conditions": []},
        }
    )
    for term in (
        label_term("app", "web"),
        field_term("type", "Opaque"),
        field_term("status.phase", "Active"),
        field_term("metadata.name", "a"),
    ):
        assert term in terms
