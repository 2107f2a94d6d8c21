"""Options of requests as kube-apiserver takes them: what is present counts, even if it is empty."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pykcp.testing.client import APPLY, MERGE, TestClient

MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
META = "application/json;as={};v=v1;g=meta.k8s.io"
REVIEW = {"spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "secrets"}}}


@pytest.fixture
def maps(cluster: TestClient) -> Iterator[TestClient]:
    reply = cluster.post(MAPS, {"metadata": {"name": "one", "labels": {"mine": "1"}}})
    assert reply.status == 201, reply
    yield cluster
    cluster.delete(f"{MAPS}/one")


@pytest.mark.parametrize(
    ("method", "path", "query", "code", "message"),
    [
        ("GET", MAPS, "limit=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
        ("GET", MAPS, "timeoutSeconds=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
        ("GET", MAPS, "sendInitialEvents=", 422, "sendInitialEvents is forbidden for list"),
        ("GET", MAPS, "sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        ("GET", MAPS, "watch=1&continue=x", 422, "is forbidden when continue is provided"),
        ("GET", MAPS, "watch=1&resourceVersion=abc", 500, "resourceVersion: Invalid value"),
        ("GET", MAPS, "watch=1&limit=abc", 400, 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ("GET", f"/api/v1/watch/{MAPS[8:]}", "limit=", 400, 'parsing "": invalid syntax'),
        (
            "GET",
            f"/api/v1/watch/{MAPS[8:]}",
            "sendInitialEvents=true",
            422,
            "is forbidden for list",
        ),
        (
            "GET",
            f"/api/v1/watch/{MAPS[8:]}",
            "resourceVersion=0&resourceVersionMatch=Exact",
            422,
            'resourceVersionMatch "exact" is forbidden',
        ),
        ("DELETE", MAPS, "dryRun=&sendInitialEvents=true", 422, "ListOptions.meta.k8s.io"),
        ("PUT", f"{MAPS}/two", "", 400, "namespace of the provided object does not match"),
        ("PATCH", f"{MAPS}/one", "", 400, "namespace of the provided object does not match"),
        ("POST", MAPS, "dryRun=", 422, 'Unsupported value: [""]: supported values: "All"'),
        ("GET", f"{MAPS}/one", "export=true", 400, "is no longer supported"),
        ("GET", f"{MAPS}/one", "export=", 400, "is no longer supported"),
        ("PUT", f"{MAPS}/one", "dryRun=", 422, 'Unsupported value: [""]'),
        ("DELETE", f"{MAPS}/one", "dryRun=", 422, 'Unsupported value: [""]'),
        ("DELETE", f"{MAPS}/one", "gracePeriodSeconds=", 400, 'parsing "": invalid syntax'),
        ("DELETE", f"{MAPS}/one", "propagationPolicy=", 422, 'Unsupported value: ""'),
        ("DELETE", f"{MAPS}/one", "uid=abc", 409, "the UID in the precondition (abc)"),
        ("DELETE", f"{MAPS}/one", "resourceVersion=1", 409, "the ResourceVersion in the"),
        ("DELETE", "/api/v1/watch/namespaces", "", 405, "does not allow this method"),
        ("PATCH", "/api/v1/watch/namespaces/default", "", 405, "does not allow this method"),
        ("WATCH", MAPS, "", 405, "does not allow this method"),
        ("GET", f"{REVIEWS}/x", "", 404, "could not find the requested resource"),
    ],
)
def test_refusals(
    maps: TestClient, method: str, path: str, query: str, code: int, message: str
) -> None:
    metadata = {"name": "one"} if query else {"name": "other", "namespace": "elsewhere"}
    body = {"metadata": metadata} if method in ("POST", "PUT", "PATCH") else None
    form = MERGE if method == "PATCH" else "application/json"
    reply = maps.request(method, f"{path}?{query}" if query else path, body, form)
    assert (reply.status, message in reply.json["message"]) == (code, True), reply
    assert maps.get(f"{MAPS}/one").status == 200


@pytest.mark.parametrize("method", ["DELETE", "OPTIONS", "get"])
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/apis", 200),
        ("/apis/rbac.authorization.k8s.io", 200),
        ("/apis/rbac.authorization.k8s.io/v1", 405),
        ("/apis/rbac.authorization.k8s.io/v9", 404),
        ("/apis/unknown.example.com", 404),
        ("/apis/unknown.example.com/v1", 404),
        ("/api", 405),
        ("/api/v1", 405),
        ("/api/v9", 404),
        ("/openapi/v3", 200),
        ("/healthz", 200),
        ("/readyz/", 404),
        ("/version", 405),
        ("/openid/v1/jwks", 405),
        ("/nothing", 404),
    ],
)
def test_paths_and_methods(maps: TestClient, method: str, path: str, code: int) -> None:
    """Upstream answers any method where no router looks at it."""
    assert maps.request(method, path).status == code


@pytest.mark.parametrize(
    ("path", "form", "message"),
    [
        (f"{MAPS}/one", "PartialObjectMetadataList", "is not a list (*core.ConfigMap)"),
        (MAPS, "PartialObjectMetadata", "is a list (*core.ConfigMapList)"),
    ],
)
def test_metadata_in_a_form_that_does_not_fit(
    maps: TestClient, path: str, form: str, message: str
) -> None:
    reply = maps.get(path, accept=META.format(form))
    assert (reply.status, reply.json["reason"]) == (406, "NotAcceptable")
    assert message in reply.json["message"]


def test_watches_are_not_sent_as_yaml(maps: TestClient) -> None:
    reply = maps.get(MAPS, watch="1", timeoutSeconds="1", accept="application/yaml")
    assert reply.status == 406
    assert b"application/json;stream=watch" in reply.body


def test_the_older_watch_path_shows_one_object(maps: TestClient) -> None:
    path = "/api/v1/watch/namespaces/default/configmaps/one"
    reply = maps.get(path, timeoutSeconds="1")
    assert [line.count(b'"name":"one"') for line in reply.body.splitlines()] == [1]
    refused = maps.get(path, fieldSelector="metadata.name=two")
    assert (refused.status, refused.json["message"]) == (
        400,
        "fieldSelector metadata.name doesn't match requested name",
    )


def test_a_deleted_collection_as_table(maps: TestClient) -> None:
    path = f"{MAPS}?labelSelector=mine%3D1"
    reply = maps.request("DELETE", path, accept=META.format("Table"))
    assert reply.json["kind"] == "Table"
    assert [row["cells"][0] for row in reply.json["rows"]] == ["one"]


def test_resource_versions_of_new_objects(cluster: TestClient) -> None:
    """As upstream: only a number above 0 is refused."""
    for version, code in (("5", 500), ("0", 201), ("abc", 201)):
        name = f"v{version}"
        reply = cluster.post(MAPS, {"metadata": {"name": name, "resourceVersion": version}})
        assert reply.status == code, reply


def test_reviews_have_managers_and_no_tables(cluster: TestClient) -> None:
    reply = cluster.post(REVIEWS, REVIEW)
    (manager,) = reply.json["metadata"]["managedFields"]
    assert manager["fieldsV1"]["f:spec"]["f:user"] == {}
    assert cluster.request("POST", REVIEWS, REVIEW, accept=META.format("Table")).status == 406
    partial = cluster.request("POST", REVIEWS, REVIEW, accept=META.format("PartialObjectMetadata"))
    assert (partial.status, partial.json["kind"]) == (201, "PartialObjectMetadata")


def test_an_empty_token_request(cluster: TestClient) -> None:
    assert cluster.post(ACCOUNTS, {"metadata": {"name": "bot"}}).status == 201
    reply = cluster.post(f"{ACCOUNTS}/bot/token", {})
    assert (reply.json["kind"], reply.json["apiVersion"]) == (
        "TokenRequest",
        "authentication.k8s.io/v1",
    )
    (manager,) = reply.json["metadata"]["managedFields"]
    assert manager["subresource"] == "token"
    assert manager["fieldsV1"] == {"f:spec": {"f:expirationSeconds": {}}}
    for reference, message in (
        ({}, "cannot bind token to object of type /, Kind="),
        ({"kind": "Secret"}, "Name parameter required."),
    ):
        refused = cluster.post(f"{ACCOUNTS}/bot/token", {"spec": {"boundObjectRef": reference}})
        assert (refused.status, refused.json["message"]) == (400, message)


_POD = {"kind": "Pod", "apiVersion": "v1", "name": "p"}


@pytest.mark.parametrize(
    ("account", "body", "status"),
    [
        ("nosuch", {"metadata": {"name": "other"}}, 422),
        ("nosuch", {"spec": {"expirationSeconds": 1}}, 404),
        ("bot", {"metadata": {"name": "other"}, "spec": {"boundObjectRef": {}}}, 422),
        ("bot", {"spec": {"expirationSeconds": 1, "boundObjectRef": _POD}}, 422),
        ("bot", {"spec": {"boundObjectRef": _POD}}, 404),
    ],
)
def test_the_first_mistake_of_a_token_request_is_named(
    cluster: TestClient, account: str, body: dict[str, Any], status: int
) -> None:
    """The place, then the account, then the content, then the bound object."""
    assert cluster.post(ACCOUNTS, {"metadata": {"name": "bot"}}).status == 201
    assert cluster.post(f"{ACCOUNTS}/{account}/token", body).status == status


_BOTH_SET = "orphanDependents and deletionPropagation cannot be both set"


@pytest.mark.parametrize(
    ("options", "status", "mistakes"),
    [
        (
            {"propagationPolicy": "Bad", "orphanDependents": False, "dryRun": ["x"]},
            422,
            [_BOTH_SET, 'Unsupported value: "Bad"', 'Unsupported value: ["x"]'],
        ),
        ({"propagationPolicy": ""}, 422, ['Unsupported value: ""']),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, [_BOTH_SET]),
        (
            {"preconditions": "x"},
            400,
            ["cannot unmarshal string into Go struct field DeleteOptions.preconditions of type v1"],
        ),
    ],
)
def test_mistakes_in_options_of_a_delete(
    cluster: TestClient, options: dict[str, Any], status: int, mistakes: list[str]
) -> None:
    """All that are wrong with the values, in upstream's order; nothing is deleted."""
    assert cluster.post(MAPS, {"metadata": {"name": "m"}}).status == 201
    refused = cluster.request("DELETE", f"{MAPS}/m", options)
    assert refused.status == status
    causes = (refused.json.get("details") or {}).get("causes") or [refused.json]
    for cause, mistake in zip(causes, mistakes, strict=True):
        assert mistake in cause["message"]
    assert refused.json["message"].startswith("json: " if status == 400 else "DeleteOptions.")
    assert cluster.get(f"{MAPS}/m").status == 200


def test_a_watch_for_less_than_no_time_ends_at_once(cluster: TestClient) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert list(cluster.watch(leases, timeoutSeconds="-1")) == []


@pytest.mark.parametrize("path", ["", "/v1", "/v1/things", "/v1/namespaces/default/things/x"])
def test_unknown_groups_are_unknown_pages(cluster: TestClient, path: str) -> None:
    reply = cluster.get(f"/apis/nosuch.example.com{path}")
    assert (reply.status, reply.body) == (404, b"404 page not found\n")


def test_strict_apply_finds_repeated_keys(cluster: TestClient) -> None:
    body = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":"1","a":"2"}}'
    kind = "application/apply-patch+yaml"
    query = {"fieldManager": "me", "fieldValidation": "Strict"}
    refused = cluster.patch(f"{MAPS}/m", body, kind, **query)
    assert (refused.status, refused.json["message"]) == (
        400,
        (
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
            '  line 1: key "a" already set in map'
        ),
    )
    made = cluster.patch(f"{MAPS}/m", body, kind, fieldManager="me")
    assert (made.status, made.header_all("warning")) == (201, [REPEATED.format(1, "a")])
    query["fieldValidation"] = "Ignore"
    assert cluster.patch(f"{MAPS}/m", body, kind, **query).header_all("warning") == []


REPEATED = '299 - "line {}: key \\"{}\\" already set in map"'


@pytest.mark.parametrize("padding", ["", "x" * 600_000])
def test_an_apply_warns_of_each_repeated_key(cluster: TestClient, padding: str) -> None:
    body = f"""apiVersion: v1
kind: ConfigMap
metadata:
  name: m
  name: m
data:
  a: '1'
  a: '{padding}'
"""
    made = cluster.patch(f"{MAPS}/m", body, APPLY, fieldManager="me")
    assert made.status == 201
    assert made.header_all("warning") == [REPEATED.format(5, "name"), REPEATED.format(8, "a")]


def test_strict_decoding_of_yaml_is_one_error(cluster: TestClient) -> None:
    body = "metadata: {name: m}\nnosuch: 1\ndata:\n  a: '1'\n  a: '2'\n  b: v\n  b: w\n"
    kind = "application/yaml"
    refused = cluster.post(MAPS, body, content_type=kind, fieldValidation="Strict")
    assert refused.json["message"].partition("strict decoding error: ")[2] == (
        'yaml: unmarshal errors:\n  line 5: key "a" already set in map\n'
        '  line 7: key "b" already set in map, unknown field "nosuch"'
    )
    warned = cluster.post(MAPS, body, content_type=kind, dryRun="All")
    assert warned.header_all("warning")[:2] == [REPEATED.format(5, "a"), REPEATED.format(7, "b")]


def test_match_conditions_do_not_see_variables(cluster: TestClient) -> None:
    rules = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
        }
    ]
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "variables": [{"name": "v", "expression": "1"}],
        "matchConditions": [{"name": "m", "expression": "variables.v == 1"}],
        "validations": [{"expression": "variables.v == 1"}],
    }
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    refused = cluster.post(policies, {"metadata": {"name": "p"}, "spec": spec})
    (cause,) = refused.json["details"]["causes"]
    assert cause["field"] == "spec.matchConditions[0].expression"
    assert "undeclared reference to 'variables'" in cause["message"]


@pytest.mark.parametrize("method", ["get", "Watch", "CONNECT2", "M-SEARCH"])
def test_unknown_methods_are_not_allowed(maps: TestClient, method: str) -> None:
    """Methods are case-sensitive."""
    reply = maps.request(method, f"{MAPS}/one")
    assert (reply.status, reply.json["reason"]) == (405, "MethodNotAllowed")


def test_every_answer_has_an_id(maps: TestClient) -> None:
    paths = (
        f"{MAPS}/one",
        f"{MAPS}/nosuch",
        "/nosuch",
        "/healthz",
        f"{MAPS}?watch=1&timeoutSeconds=1",
    )
    ids = [maps.get(path).header_all("audit-id") for path in paths]
    assert all(len(found) == 1 and uuid.UUID(found[0]).version == 4 for found in ids)
    assert len({found[0] for found in ids}) == len(paths)
    assert maps.get(MAPS, headers={"Audit-ID": "mine"}).header_all("audit-id") == ["mine"]
    assert len(maps.get(MAPS, headers={"Audit-ID": "x y"}).header("audit-id") or "") == 36


EVENT: dict[str, Any] = {"metadata": {"name": "ev"}, "involvedObject": {"namespace": "default"}}


def test_empty_controllers_of_events_are_written_by_the_core_group_only(
    cluster: TestClient,
) -> None:
    core, new = "/api/v1", "/apis/events.k8s.io/v1"
    place = "namespaces/default/events"
    assert cluster.post(f"{core}/{place}", EVENT).status == 201
    found = cluster.get(f"{core}/{place}/ev").json
    assert (found["reportingComponent"], found["reportingInstance"]) == ("", "")
    shown = cluster.get(f"{new}/{place}/ev").json
    assert not {"reportingController", "reportingInstance"} & shown.keys()
    assert cluster.patch(f"{new}/{place}/ev", {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert cluster.get(f"{core}/{place}/ev").json["reportingInstance"] == ""


def test_proxy_is_a_verb(cluster: TestClient) -> None:
    assert cluster.get("/api/v1/proxy/namespaces/default/configmaps").status == 404
    headers = {"Impersonate-User": "bob"}
    denied = cluster.get("/api/v1/proxy/nodes/x", headers=headers)
    assert denied.json["details"] == {"name": "x", "kind": "nodes"}
    assert 'cannot proxy resource "nodes"' in denied.json["message"]


def test_a_selected_name_is_no_name_of_a_deleted_collection(cluster: TestClient) -> None:
    """A role for one object lets its user list that object alone, but not delete by selector."""
    query, headers = {"fieldSelector": "metadata.name=one"}, {"Impersonate-User": "bob"}
    assert cluster.get(MAPS, headers=headers, **query).json["details"]["name"] == "one"
    denied = cluster.request("DELETE", f"{MAPS}", headers=headers, **query)
    assert denied.json["details"] == {"kind": "configmaps"}
    odd = cluster.get(MAPS, headers=headers, fieldSelector="metadata.name=..")
    assert odd.json["details"] == {"kind": "configmaps"}


def test_the_last_event_shows_the_finalizer(cluster: TestClient) -> None:
    """The response to the update that removed it does not."""
    made = cluster.post(MAPS, {"metadata": {"name": "held", "finalizers": ["example.com/x"]}})
    cluster.delete(f"{MAPS}/held")
    events = cluster.watch(MAPS, resourceVersion=made.json["metadata"]["resourceVersion"])
    assert next(events)["type"] == "MODIFIED"
    removed = cluster.patch(f"{MAPS}/held", {"metadata": {"finalizers": None}})
    assert (removed.status, removed.json["metadata"].get("finalizers")) == (200, None)
    last = next(events)
    assert (last["type"], last["object"]["metadata"]["finalizers"]) == (
        "DELETED",
        ["example.com/x"],
    )
    events.close()


LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.mark.parametrize(
    ("number", "code", "expected"),
    [
        ("1.0", 201, 1),
        ("1e3", 201, 1000),
        ("100e-2", 201, 1),
        ("0.0", 422, "Invalid value: 0: must be greater than 0"),
        ("1.5", 500, "Kind=Lease: cannot convert float64 to int32"),
    ],
)
def test_numbers_of_applied_configurations(
    cluster: TestClient, number: str, code: int, expected: Any
) -> None:
    """They are read as YAML: a number without a fraction is a whole one, however it is written."""
    head = '{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n"}'
    body = f'{head},"spec":{{"leaseDurationSeconds":{number}}}}}'
    reply = cluster.patch(f"{LEASES}/n", body, APPLY, fieldManager="me")
    assert reply.status == code, reply
    if code == 201:
        assert reply.json["spec"]["leaseDurationSeconds"] == expected
    else:
        assert expected in reply.json["message"]
    refused = cluster.post(
        LEASES, f'{{"metadata":{{"name":"m"}},"spec":{{"leaseDurationSeconds":{number}}}}}'
    )
    assert refused.status == 400


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("x", "illegal base64 data at input byte 0"),
        ("ab=", "illegal base64 data at input byte 2"),
        ("e30", "server does not recognize this encoded version "),
        ("W10", "json: cannot unmarshal array into Go value of type storage.continueToken"),
        ("YWJj", "invalid character 'a' looking for beginning of value"),
    ],
)
def test_continue_tokens_that_are_none(cluster: TestClient, token: str, why: str) -> None:
    refused = cluster.get(MAPS, resourceVersion="5", **{"continue": token})
    assert (refused.status, refused.json["message"]) == (
        400,
        f"invalid continue token: continue key is not valid: {why}",
    )


def test_lists_out_of_the_cache_are_not_paged(cluster: TestClient) -> None:
    """As upstream's watch cache, which events do not have."""
    for name in ("a", "b", "c"):
        assert cluster.post(MAPS, {"metadata": {"name": name}}).status == 201
        event = {**EVENT, "metadata": {"name": name}}
        assert cluster.post(MAPS.replace("configmaps", "events"), event).status == 201
    whole = cluster.get(MAPS, resourceVersion="0", limit="2").json
    assert (len(whole["items"]) > 2, "continue" in whole["metadata"]) == (True, False)
    page = cluster.get(MAPS, resourceVersion="0", limit="2", resourceVersionMatch="NotOlderThan")
    assert "continue" not in page.json["metadata"]
    events = cluster.get(MAPS.replace("configmaps", "events"), resourceVersion="0", limit="2").json
    assert (len(events["items"]), bool(events["metadata"]["continue"])) == (2, True)
    assert (
        len(
            cluster.get(
                MAPS, resourceVersion="1", limit="2", resourceVersionMatch="NotOlderThan"
            ).json["items"]
        )
        == 2
    )


def test_managers_of_a_version_that_cannot_be_read(cluster: TestClient) -> None:
    entry = {"manager": "a", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {}}
    for version, count in (("nosuch.io/v1", 1), ("v9", 1), ("a/b/c", 0)):
        metadata = {"generateName": "m", "managedFields": [{**entry, "apiVersion": version}]}
        made = cluster.post(MAPS, {"metadata": metadata, "data": {"x": "1"}})
        assert len(made.json["metadata"].get("managedFields", ())) == count, version


def test_parameters_with_semicolons_are_none(maps: TestClient) -> None:
    """Go drops such pairs, and keeps the others."""
    reply = maps.get(f"{MAPS}/one?export=true;x&pretty=1")
    assert (reply.status, b"\n" in reply.body.strip()) == (200, True)
    reply = maps.post(f"{MAPS}?dryRun=All;x", {"metadata": {"name": "made"}})
    assert (reply.status, maps.get(f"{MAPS}/made").status) == (201, 200)


@pytest.mark.parametrize(
    ("content_type", "is_known"),
    [
        ("application/json;charset=utf-8", True),
        ("application/json;", True),
        ('application/json; a = "b;c" ;d=e', True),
        ("application/json;a", False),
        ("application/json;a=b;c", False),
        ("application/json;=b", False),
    ],
)
def test_parameters_of_media_types(maps: TestClient, content_type: str, is_known: bool) -> None:
    """A body whose media type is malformed has no known form, but for a patch."""
    body = '{"metadata": {"name": "two"}}'
    reply = maps.post(f"{MAPS}?dryRun=All", body, content_type=content_type)
    assert reply.status == (201 if is_known else 415), reply
    reply = maps.delete(f"{MAPS}/one?dryRun=All", "{}", content_type=content_type)
    assert reply.status == (200 if is_known else 415), reply
    merge = content_type.replace("json", "merge-patch+json", 1)
    assert maps.patch(f"{MAPS}/one?dryRun=All", "{}", merge).status == 200


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_delete_whose_body_is_null(maps: TestClient, form: str) -> None:
    """It has no options."""
    reply = maps.delete(f"{MAPS}/one", "null", content_type=f"application/{form}")
    assert (reply.status, maps.get(f"{MAPS}/one").status) == (200, 404), reply


def test_no_write_stores_a_self_link(maps: TestClient) -> None:
    link = {"metadata": {"selfLink": "/x"}}
    for form in ("merge-patch", "strategic-merge-patch"):
        reply = maps.patch(f"{MAPS}/one", link, f"application/{form}+json")
        assert (reply.status, "selfLink" in reply.json["metadata"]) == (200, False)
    reply = maps.put(f"{MAPS}/one", {"metadata": {"name": "one", "selfLink": "/x"}})
    assert (reply.status, "selfLink" in reply.json["metadata"]) == (200, False)


def test_a_patch_that_takes_the_version_away(maps: TestClient) -> None:
    reply = maps.patch(f"{MAPS}/one", {"apiVersion": None})
    assert (reply.status, "(one based on URL) was undeterminable" in reply.json["message"]) == (400, True)  # fmt: skip


@pytest.mark.parametrize(
    ("method", "form", "mistakes"),
    [
        ("PATCH", MERGE, ["force", "fieldManager", "fieldManager", "dryRun", "fieldValidation"]),
        ("POST", "application/json", ["fieldManager", "fieldManager", "dryRun", "fieldValidation"]),
    ],
)
def test_wrong_options_are_named_in_upstreams_order(
    cluster: TestClient, method: str, form: str, mistakes: list[str]
) -> None:
    manager = "ü\x07" + "x" * 128
    query = {"fieldManager": manager, "dryRun": "x", "fieldValidation": "x", "force": "true"}
    path = MAPS if method == "POST" else f"{MAPS}/x"
    refused = cluster.request(method, path, {"metadata": {"name": "x"}}, form, **query)
    causes = refused.json["details"]["causes"]
    assert [each["field"] for each in causes] == mistakes
    assert "invalid character U+0007 (at position 2)" in refused.json["message"]


def test_an_apply_without_manager_is_told_first(cluster: TestClient) -> None:
    refused = cluster.patch(f"{MAPS}/x", {}, APPLY, dryRun="x")
    fields = [each["field"] for each in refused.json["details"]["causes"]]
    assert fields == ["fieldManager", "dryRun"]


def test_a_page_of_a_collection_is_deleted(cluster: TestClient) -> None:
    """The answer is the list that was deleted, with all that it said of itself."""
    for name in "abc":
        assert (
            cluster.post(MAPS, {"metadata": {"name": name, "labels": {"of": "us"}}}).status == 201
        )
    listed = cluster.get(MAPS, limit="2").json
    assert cluster.post(MAPS, {"metadata": {"name": "d"}}, dryRun="All").status == 201
    deleted = cluster.delete(MAPS, limit="2").json
    assert [each["metadata"]["name"] for each in deleted["items"]] == ["a", "b"]
    assert deleted["metadata"] == listed["metadata"]
    assert deleted["metadata"]["remainingItemCount"] == 1 + len(
        [e for e in cluster.get(MAPS).json["items"] if e["metadata"]["name"] not in "abc"]
    )
    rest = cluster.get(MAPS, **{"continue": deleted["metadata"]["continue"]}).json["items"]
    assert rest[0]["metadata"]["name"] == "c"
