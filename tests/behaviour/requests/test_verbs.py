"""The verbs: what they do, what they answer, and how they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import APPLY, JSON_PATCH, MERGE, STRATEGIC, Reply, TestClient, eventually

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


def config_map(name: str = "x", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def status_of(reply: Reply) -> tuple[int, str, str]:
    """Code, reason and message of a refusal."""
    status = reply.json
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert status["code"] == reply.status
    return reply.status, status.get("reason", ""), status["message"]


def test_create(cluster: TestClient) -> None:
    """201 with the object as stored: uid, version, creation time, managed fields, namespace."""
    reply = cluster.post(MAPS, config_map(a="1"), headers={"User-Agent": "tester/1.0"})
    assert reply.status == 201
    made = reply.json
    assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"a": "1"})
    metadata = made["metadata"]
    assert metadata["namespace"] == "default"
    assert len(metadata["uid"]) == 36
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")
    (managed,) = metadata["managedFields"]
    assert (managed["manager"], managed["operation"]) == ("tester", "Update")
    assert managed["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}
    assert cluster.get(f"{MAPS}/x").json == made


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        pytest.param(MAPS, {"metadata": {}}, (422, "Invalid",
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'), id="no name"),
        pytest.param(MAPS, {"metadata": {"name": "a", "namespace": "b"}}, (400, "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request"), id="namespace"),
        pytest.param(MAPS, {"metadata": {"name": "a", "resourceVersion": "1"}}, (500, "",
            "resourceVersion should not be set on objects to be created"), id="resourceVersion"),
        pytest.param("/api/v1/namespaces/nosuch/configmaps", {"metadata": {"name": "a"}}, (404, "NotFound",
            'namespaces "nosuch" not found'), id="no such namespace"),
        pytest.param(MAPS, {"metadata": {"name": "a", "labels": {"a": "b c"}}}, (422, "Invalid",
            ('ConfigMap "a" is invalid: metadata.labels: Invalid value: "b c": a valid label must be an empty string or '
            "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
            "character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')")), id="label"),
        pytest.param(MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}, "binaryData": {"x": "MQ=="}}, (422, "Invalid",
            'ConfigMap "a" is invalid: data[x]: Invalid value: "x": duplicate of key present in binaryData'), id="data"),
    ],
)  # fmt: skip
def test_creates_that_are_refused(
    cluster: TestClient, path: str, body: Any, expected: tuple[int, str, str]
) -> None:
    """The usual mistakes, in kube-apiserver's words."""
    assert status_of(cluster.post(path, body)) == expected


def test_a_second_create_is_a_conflict(cluster: TestClient) -> None:
    """409 AlreadyExists."""
    cluster.post(MAPS, config_map())
    assert status_of(cluster.post(MAPS, config_map())) == (
        409,
        "AlreadyExists",
        'configmaps "x" already exists',
    )


@pytest.mark.parametrize("dry_run", [{}, {"dryRun": "All"}])
def test_a_second_create_that_could_have_had_a_generated_name(
    cluster: TestClient, dry_run: dict[str, str]
) -> None:
    """The client chose the name, and is told to come again all the same."""
    body = {"metadata": {"name": "x", "generateName": "x-", "finalizers": ["example.com/stay"]}}
    assert cluster.post(MAPS, body).status == 201
    why = 'configmaps "x" already exists, the server was not able to generate a unique name for the object'  # fmt: skip
    refused = cluster.post(MAPS, body, **dry_run)
    assert status_of(refused) == (409, "AlreadyExists", why)
    assert refused.json["details"]["retryAfterSeconds"] == 1
    assert refused.header("retry-after") == "1"
    cluster.delete(f"{MAPS}/x")
    going = cluster.post(MAPS, body, **dry_run)
    assert status_of(going)[2] == f"object is being deleted: {why}"


def test_generated_names(cluster: TestClient) -> None:
    """generateName gives each object five characters of its own."""
    made = [cluster.post(MAPS, {"metadata": {"generateName": "g-"}}).json for _ in range(3)]
    names = {m["metadata"]["name"] for m in made}
    assert len(names) == 3
    assert all(len(n) == 7 and n.startswith("g-") for n in names)


def test_update(cluster: TestClient) -> None:
    """PUT replaces; the uid and creation time stay; no change keeps the version."""
    made = cluster.post(MAPS, config_map(a="1")).json
    changed = cluster.put(f"{MAPS}/x", {**made, "data": {"b": "2"}}).json
    assert changed["data"] == {"b": "2"}
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]
    assert changed["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    again = cluster.put(f"{MAPS}/x", changed).json
    assert again["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    "type_of", [{}, {"kind": "ConfigMap"}, {"apiVersion": "v1", "kind": "ConfigMap"}]
)
def test_an_update_that_changes_nothing_is_none(
    cluster: TestClient, type_of: dict[str, str]
) -> None:
    """No new version, whether the body says what it is or leaves that to the URL."""
    made = cluster.post(MAPS, config_map(a="1"), fieldManager="m").json
    same = cluster.put(f"{MAPS}/x", {**type_of, **config_map(a="1")}, fieldManager="m")
    assert (same.status, same.json) == (200, made)


def test_optimistic_locking(cluster: TestClient) -> None:
    """An update or patch of an older version is refused; without a version the last one wins."""
    made = cluster.post(MAPS, config_map(a="1")).json
    cluster.patch(f"{MAPS}/x", {"data": {"a": "2"}})
    expected = (
        409,
        "Conflict",
        (
            'Operation cannot be fulfilled on configmaps "x": the object has been modified; please apply your '
            "changes to the latest version and try again"
        ),
    )
    assert status_of(cluster.put(f"{MAPS}/x", made)) == expected
    version = made["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {"a": "3"}}
    assert status_of(cluster.patch(f"{MAPS}/x", patch)) == expected
    assert cluster.put(f"{MAPS}/x", config_map(a="4")).status == 200


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"metadata": {"name": "y"}}, (400, "BadRequest",
            "the name of the object (y) does not match the name on the URL (x)")),
        ({"metadata": {"name": "x", "uid": "other"}}, (409, "Conflict",
            ('Operation cannot be fulfilled on configmaps "x": StorageError: invalid object, Code: 4, Key: '
            "/configmaps/default/x, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
            "other, UID in object meta: <uid>"))),
    ],
)  # fmt: skip
def test_updates_that_are_refused(
    cluster: TestClient, body: Any, expected: tuple[int, str, str]
) -> None:
    """Another name, another uid."""
    uid = cluster.post(MAPS, config_map()).json["metadata"]["uid"]
    code, reason, message = expected
    assert status_of(cluster.put(f"{MAPS}/x", body)) == (
        code,
        reason,
        message.replace("<uid>", uid),
    )


def test_updates_of_nothing(cluster: TestClient) -> None:
    """404, except for leases and the like, which a PUT creates."""
    assert status_of(cluster.put(f"{MAPS}/x", config_map()))[:2] == (404, "NotFound")
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    assert cluster.put(f"{LEASES}/l", lease).status in {201, 404}


@pytest.mark.parametrize("is_large", [False, True])
def test_strategic_patches_are_converted_rather_than_decoded(
    cluster: TestClient, is_large: bool
) -> None:
    """Refusals show the patch as Go prints it; numbers are taken that JSON decoding would refuse."""
    data = {"a": "x" * 200_000} if is_large else {"a": "1"}
    assert cluster.post(MAPS, config_map(**data)).status == 201
    refused = cluster.patch(f"{MAPS}/x", '{"data":{"z":null,"y":1}}', STRATEGIC)
    assert status_of(refused) == (
        422,
        "Invalid",
        (
            ' "" is invalid: patch: Invalid value: "map[data:map[y:1 z:<nil>]]": '
            "cannot convert int64 to string"
        ),
    )
    assert refused.json["details"]["causes"][0]["field"] == "patch"
    text = '{"z":1,"b":1,"data":{"a":"1","a":"2"}}'
    warned = cluster.patch(f"{MAPS}/x", text, STRATEGIC)
    problems = ['duplicate field \\"data.a\\"', 'unknown field \\"b\\"', 'unknown field \\"z\\"']
    assert warned.header_all("warning") == [f'299 - "{each}"' for each in problems]
    strict = cluster.patch(f"{MAPS}/x", text, STRATEGIC, fieldValidation="Strict")
    assert status_of(strict)[2] == (
        ' "" is invalid: patch: Invalid value: "map[b:1 data:map[a:2] z:1]": strict decoding error: '
        'duplicate field "data.a", unknown field "b", unknown field "z"'
    )


@pytest.mark.parametrize(("given", "stored"), [("5.0", 5), ("1e1", 10), ("4294967297", 1)])
def test_numbers_of_strategic_patches(cluster: TestClient, given: str, stored: int) -> None:
    assert cluster.post(LEASES, {"metadata": {"name": "l"}, "spec": {}}).status == 201
    text = '{"spec":{"leaseDurationSeconds":' + given + "}}"
    reply = cluster.patch(f"{LEASES}/l", text, STRATEGIC)
    assert (reply.status, reply.json["spec"]) == (200, {"leaseDurationSeconds": stored})


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        (f"{MAPS}/x", MERGE), (f"{MAPS}/x", STRATEGIC), (f"{MAPS}/x", JSON_PATCH), (f"{LEASES}/x", MERGE),
        ("/api/v1/namespaces/x", MERGE), ("/api/v1/namespaces/x/status", APPLY),
    ],
)  # fmt: skip
def test_bad_patches_of_nothing(
    cluster: TestClient, path: str, content_type: str, is_large: bool
) -> None:
    """That there is no such object comes before what is wrong with the patch."""
    text = "{:" + " " * (1 << 20 if is_large else 0)
    reply = cluster.patch(path, text, content_type, fieldManager="me")
    assert status_of(reply)[:2] == (404, "NotFound")


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        (MERGE, {"data": {"a": None, "c": "3"}}),
        (STRATEGIC, {"data": {"a": None, "c": "3"}}),
        (JSON_PATCH, [{"op": "remove", "path": "/data/a"}, {"op": "add", "path": "/data/c", "value": "3"}]),
    ],
)  # fmt: skip
def test_patches(cluster: TestClient, content_type: str, patch: Any) -> None:
    """Three kinds of patches say the same."""
    cluster.post(MAPS, config_map(a="1", b="2"))
    reply = cluster.patch(f"{MAPS}/x", patch, content_type)
    assert reply.status == 200
    assert reply.json["data"] == {"b": "2", "c": "3"}


def test_strategic_patches_merge_lists_by_key(cluster: TestClient) -> None:
    """A service account's secrets are merged by name, a merge patch replaces them."""
    body = {"metadata": {"name": "s"}, "secrets": [{"name": "a"}, {"name": "b"}]}
    cluster.post(ACCOUNTS, body)
    merged = cluster.patch(f"{ACCOUNTS}/s", {"secrets": [{"name": "c"}]}, STRATEGIC).json
    assert {s["name"] for s in merged["secrets"]} == {"a", "b", "c"}
    replaced = cluster.patch(f"{ACCOUNTS}/s", {"secrets": [{"name": "d"}]}, MERGE).json
    assert replaced["secrets"] == [{"name": "d"}]


@pytest.mark.parametrize(
    ("patch", "status"),
    [
        ({"kind": None}, 200),
        ({"apiVersion": "x", "kind": "y"}, 200),
        ({"kind": {}}, 422),
        ({"apiVersion": []}, 422),
        ({"apiVersion": 0}, 422),
        ({"kind": True}, 422),
    ],
)
def test_strategic_patches_leave_the_type_alone(
    cluster: TestClient, patch: dict[str, Any], status: int
) -> None:
    cluster.post(MAPS, config_map(a="1"))
    reply = cluster.patch(f"{MAPS}/x", patch, STRATEGIC)
    assert reply.status == status, reply
    assert cluster.get(f"{MAPS}/x").json["kind"] == "ConfigMap"


_SIGNING = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


@pytest.mark.parametrize(
    ("path", "selector", "status"),
    [
        ("/api/v1/namespaces", "metadata.namespace=", 400),
        (_SIGNING, "metadata.namespace=", 400),
        (_ROLES, "metadata.namespace=", 200),
        ("/api/v1/secrets", "metadata.namespace=default", 200),
        ("/api/v1/namespaces", "=", 200),
        ("/api/v1/namespaces", "!=,metadata.name=default", 200),
        ("/api/v1/namespaces", "=x", 400),
        (_ROLES, "spec.x=", 400),
    ],
)
def test_fields_that_can_be_selected_by(
    cluster: TestClient, path: str, selector: str, status: int
) -> None:
    assert cluster.get(path, fieldSelector=selector).status == status


def test_json_patches_can_test(cluster: TestClient) -> None:
    """A test that fails refuses the whole patch."""
    cluster.post(MAPS, config_map(a="1"))
    patch = [{"op": "test", "path": "/data/a", "value": "2"}, {"op": "remove", "path": "/data/a"}]
    assert cluster.patch(f"{MAPS}/x", patch, JSON_PATCH).status == 422
    assert cluster.get(f"{MAPS}/x").json["data"] == {"a": "1"}


def apply(cluster: TestClient, manager: str, force: str = "false", **data: str) -> Reply:
    body = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("applied", **data)}
    query = {"fieldManager": manager, "force": force}
    return cluster.patch(f"{MAPS}/applied", body, APPLY, **query)


def test_apply(cluster: TestClient) -> None:
    """Creates what is missing, owns what it sets, removes what it no longer sets."""
    assert apply(cluster, "one", a="1", b="2").status == 201
    assert apply(cluster, "two", c="3").status == 200
    reply = apply(cluster, "one", a="1")
    assert reply.json["data"] == {"a": "1", "c": "3"}
    managers = {m["manager"]: m["operation"] for m in reply.json["metadata"]["managedFields"]}
    assert managers == {"one": "Apply", "two": "Apply"}


def test_apply_conflicts_and_force(cluster: TestClient) -> None:
    """Another's field is a conflict that names the owner; force takes it over."""
    apply(cluster, "one", a="1")
    refused = apply(cluster, "two", a="2")
    code, reason, message = status_of(refused)
    assert (code, reason) == (409, "Conflict")
    assert message == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    (cause,) = refused.json["details"]["causes"]
    assert cause == {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}  # fmt: skip
    assert apply(cluster, "two", force="true", a="2").json["data"] == {"a": "2"}
    assert apply(cluster, "two", a="2").status == 200


def test_apply_needs_a_manager(cluster: TestClient) -> None:
    """Without fieldManager it is refused."""
    reply = cluster.patch(f"{MAPS}/x", {"apiVersion": "v1", "kind": "ConfigMap"}, APPLY)
    assert status_of(reply) == (
        422,
        "Invalid",
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
    )


ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"


def managers_of(reply: Reply) -> dict[str, Any]:
    assert reply.status in (200, 201), reply
    entries = reply.json["metadata"].get("managedFields") or ()
    return {entry["manager"]: entry["fieldsV1"] for entry in entries}


@pytest.mark.parametrize(
    ("path", "given", "stored", "fields"),
    [
        (ROLES, {"rules": []}, {"rules": None}, {"f:rules": {}}),
        (ROLES, {"rules": None}, {"rules": None}, None),
        (ROLES, {}, {"rules": None}, None),
    ],
)
def test_empty_lists_are_owned_and_stored_as_null(
    cluster: TestClient,
    path: str,
    given: dict[str, Any],
    stored: dict[str, Any],
    fields: dict[str, Any] | None,
) -> None:
    """Whoever writes one is its owner, though storage cannot tell it from none."""
    body = {"metadata": {"name": "x"}, **given}
    for query in ({"dryRun": "All"}, {}):
        reply = cluster.post(path, body, fieldManager="m", **query)
        assert managers_of(reply) == ({"m": fields} if fields else {})
        assert {key: reply.json[key] for key in stored} == stored
    assert cluster.get(f"{path}/x").json == reply.json


def test_an_empty_list_changes_hands_with_every_write_of_it(cluster: TestClient) -> None:
    """It differs from what is stored each time; null does not."""
    role = {"metadata": {"name": "x"}, "rules": []}
    made = cluster.post(ROLES, role, fieldManager="one")
    same = cluster.put(f"{ROLES}/x", {**role, "rules": None}, fieldManager="two")
    assert same.json == made.json
    taken = cluster.put(f"{ROLES}/x", role, fieldManager="two")
    assert managers_of(taken) == {"two": {"f:rules": {}}}
    patched = cluster.patch(f"{ROLES}/x", {"rules": []}, MERGE, fieldManager="three")
    assert managers_of(patched) == {"three": {"f:rules": {}}}
    typed = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", **role}
    refused = cluster.patch(f"{ROLES}/x", typed, APPLY, fieldManager="four")
    assert status_of(refused)[:2] == (409, "Conflict")


def test_dry_runs_change_nothing(cluster: TestClient) -> None:
    """Create, update, patch and delete answer as if, and leave everything as it was."""
    reply = cluster.post(MAPS, config_map(a="1"), dryRun="All")
    assert reply.status == 201
    assert "resourceVersion" not in reply.json["metadata"]
    assert cluster.get(f"{MAPS}/x").status == 404
    made = cluster.post(MAPS, config_map(a="1")).json
    assert cluster.patch(f"{MAPS}/x", {"data": {"a": "2"}}, dryRun="All").json["data"] == {"a": "2"}
    assert cluster.put(f"{MAPS}/x", config_map(a="3"), dryRun="All").json["data"] == {"a": "3"}
    assert cluster.delete(f"{MAPS}/x", dryRun="All").status == 200
    assert cluster.get(f"{MAPS}/x").json == made
    code, _, message = status_of(cluster.post(MAPS, config_map(), dryRun="Some"))
    assert (code, "dryRun: Unsupported value" in message) == (422, True)


def test_field_validation(cluster: TestClient) -> None:
    """Unknown fields: ignored, warned of (the default), or refused."""
    body = {"metadata": {"name": "f", "nosuch": 1}, "data": {}}
    ignored = cluster.post(MAPS, body, fieldValidation="Ignore", dryRun="All")
    assert (ignored.status, ignored.header_all("warning")) == (201, [])
    warned = cluster.post(MAPS, body, dryRun="All")
    assert warned.header_all("warning") == ['299 - "unknown field \\"metadata.nosuch\\""']
    refused = status_of(cluster.post(MAPS, body, fieldValidation="Strict"))
    assert refused == (
        400,
        "BadRequest",
        (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
            'unknown field "metadata.nosuch"'
        ),
    )
    assert cluster.post(MAPS, body, fieldValidation="Maybe").status == 422


def test_the_status_subresource(cluster: TestClient) -> None:
    """Status is changed by its own path only, and nothing else is by that path."""
    quotas = "/api/v1/namespaces/default/resourcequotas"
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "50"}}, "status": {"hard": {"x": "1"}}}  # fmt: skip
    made = cluster.post(quotas, body).json
    assert "x" not in made.get("status", {}).get("hard", {})
    path = "/api/v1/namespaces/default/resourcequotas/q/status"
    patch = {"status": {"hard": {"configmaps": "9"}}, "spec": {"hard": {"configmaps": "7"}}}
    changed = cluster.patch(path, patch).json
    assert changed["spec"]["hard"] == {"configmaps": "50"}


def test_delete(cluster: TestClient) -> None:
    """200 with a Status that names what is gone; a second one is 404."""
    uid = cluster.post(MAPS, config_map()).json["metadata"]["uid"]
    reply = cluster.delete(f"{MAPS}/x")
    assert reply.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "x", "kind": "configmaps", "uid": uid},
    }
    assert status_of(cluster.delete(f"{MAPS}/x")) == (404, "NotFound", 'configmaps "x" not found')


def test_some_deletes_answer_with_the_object(cluster: TestClient) -> None:
    """Service accounts come back as they were."""
    cluster.post(ACCOUNTS, {"metadata": {"name": "s"}})
    assert cluster.delete(f"{ACCOUNTS}/s").json["kind"] == "ServiceAccount"


def test_preconditions(cluster: TestClient) -> None:
    """A delete of another uid or version than the one meant is refused."""
    made = cluster.post(MAPS, config_map()).json["metadata"]
    for condition in ({"uid": "other"}, {"resourceVersion": "1"}):
        reply = cluster.delete(f"{MAPS}/x", {"preconditions": condition})
        assert status_of(reply)[:2] == (409, "Conflict")
    right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    assert cluster.delete(f"{MAPS}/x", {"preconditions": right}).status == 200


def test_finalizers_keep_an_object(cluster: TestClient) -> None:
    """Marked until the last finalizer is taken away; then it is gone. New ones are refused."""
    body = {"metadata": {"name": "f", "finalizers": ["example.com/a"]}}
    cluster.post(MAPS, body)
    marked = cluster.delete(f"{MAPS}/f")
    assert marked.json["metadata"]["deletionTimestamp"]
    assert cluster.get(f"{MAPS}/f").status == 200
    more = {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}
    assert cluster.patch(f"{MAPS}/f", more).status == 422
    assert cluster.patch(f"{MAPS}/f", {"metadata": {"finalizers": None}}).status == 200
    assert cluster.get(f"{MAPS}/f").status == 404


def owned(name: str, owner: dict[str, Any]) -> dict[str, Any]:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}  # fmt: skip
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_propagation(cluster: TestClient, policy: str) -> None:
    """Dependents go with their owner, before it, or stay without it."""
    owner = cluster.post(MAPS, config_map("owner")).json
    cluster.post(MAPS, owned("child", owner))
    assert cluster.delete(f"{MAPS}/owner", propagationPolicy=policy).status == 200
    eventually(lambda: cluster.get(f"{MAPS}/owner").status == 404)
    if policy == "Orphan":
        child = eventually(lambda: cluster.get(f"{MAPS}/child"))
        assert "ownerReferences" not in child.json["metadata"]
    else:
        eventually(lambda: cluster.get(f"{MAPS}/child").status == 404)


def test_unknown_policies_are_refused(cluster: TestClient) -> None:
    """422 that names the known ones."""
    cluster.post(MAPS, config_map())
    code, _, message = status_of(cluster.delete(f"{MAPS}/x", propagationPolicy="Nosuch"))
    assert code == 422
    assert 'supported values: "Foreground", "Background", "Orphan", "nil"' in message


def test_delete_of_a_collection(cluster: TestClient) -> None:
    """Everything that is selected goes, the rest stays; the answer lists what went."""
    for name in ("a", "b", "c"):
        body = config_map(name)
        body["metadata"]["labels"] = {"go": str(name != "c").lower()}
        cluster.post(MAPS, body)
    reply = cluster.delete(MAPS, labelSelector="go=true")
    assert (reply.status, reply.json["kind"]) == (200, "ConfigMapList")
    assert [i["metadata"]["name"] for i in reply.json["items"]] == ["a", "b"]
    left = {i["metadata"]["name"] for i in cluster.get(MAPS).json["items"]}
    assert left - {"kube-root-ca.crt"} == {"c"}


def test_immutable_objects(cluster: TestClient) -> None:
    """A config map that was made immutable stays as it is."""
    cluster.post(MAPS, {**config_map(a="1"), "immutable": True})
    code, reason, message = status_of(cluster.patch(f"{MAPS}/x", {"data": {"a": "2"}}))
    assert (code, reason) == (422, "Invalid")
    assert "field is immutable when `immutable` is set" in message


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("verb", ["POST", "PUT", "PATCH"])
def test_repeated_owners_are_told(cluster: TestClient, verb: str, is_large: bool) -> None:
    """A patch's are looked at after mutating admission only, and the warning says so."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1-2"}
    data = {"a": "x" * 600_000} if is_large else {}
    body = config_map(**data)
    if verb != "POST":
        assert cluster.post(MAPS, body).status == 201
    body["metadata"]["ownerReferences"] = [owner, owner, {**owner, "name": "y"}, owner]
    if verb == "POST":
        reply = cluster.post(MAPS, body)
    elif verb == "PUT":
        reply = cluster.put(f"{MAPS}/x", body)
    else:
        reply = cluster.patch(f"{MAPS}/x", {"metadata": body["metadata"]}, MERGE)
    assert [each["name"] for each in reply.json["metadata"]["ownerReferences"]] == ["x", "y"]
    when = " after mutating admission happens" if verb == "PATCH" else ""
    (warning,) = reply.header_all("Warning")
    assert f"contains duplicate entries{when}; API server" in warning
    assert "observed: 1-2, 1-2" in warning


def test_a_method_of_nobodys_is_not_allowed(cluster: TestClient) -> None:
    """The parser does not know it, the answer is upstream's all the same."""
    reply = cluster.request("FOO", "/api/v1/namespaces/default/configmaps/x")
    assert reply.status == 405
    assert reply.json["reason"] == "MethodNotAllowed"
    assert cluster.get("/api/v1/namespaces/default").status == 200
