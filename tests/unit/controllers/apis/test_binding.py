"""A binding's status, step by step, in kcp's words."""

import pytest

from pykcp.controllers.apis import binding as steps
from pykcp.controllers.apis.binding import (
    BoundSchema,
    KnownExport,
    ResourceNames,
    Taken,
    TakenNames,
)
from pykcp.machinery.conditions import find
from pykcp.machinery.kcp import claims
from pykcp.machinery.kcp.resource_locks import ResourceLock
from pykcp.steps import at_once
from pykcp.types import Object

NOW = "2026-01-01T00:00:00Z"
WIDGETS = ResourceNames("widgets", "widget", ("wd",), "Widget", "WidgetList")


def _schema(uid: str = "u1", **more: object) -> BoundSchema:
    found = BoundSchema("v1.widgets.g.io", uid, "provider", "g.io", WIDGETS, ("v1",))
    return found._replace(**more)


def _condition(binding: Object, kind: str) -> tuple[str, str, str, str]:
    found = find(binding["status"].get("conditions") or [], kind) or {}
    return (
        found.get("status", ""),
        found.get("severity", ""),
        found.get("reason", ""),
        found.get("message", ""),
    )


def _begun() -> Object:
    binding: Object = {"metadata": {"name": "b"}, "spec": {}}
    steps.begin(binding, NOW)
    return binding


def test_it_begins() -> None:
    binding = _begun()
    assert binding["status"]["phase"] == "Binding"
    assert _condition(binding, "InitialBindingCompleted") == (
        "False",
        "Info",
        "WaitingForEstablished",
        "Waiting for API(s) to be established",
    )
    again = {**binding, "status": {"phase": "Bound"}}
    steps.begin(again, NOW)
    assert again["status"] == {"phase": "Bound"}


def test_what_may_be_wrong_with_the_export() -> None:
    binding = _begun()
    steps.no_export(binding, "root:org", "e", NOW)
    assert _condition(binding, "APIExportValid") == (
        "False",
        "Error",
        "APIExportNotFound",
        "APIExport root:org|e not found",
    )
    steps.no_identity(binding, "root:org", "e", NOW)
    assert _condition(binding, "APIExportValid") == (
        "False",
        "Warning",
        "MissingIdentityHash",
        "APIExport root:org|e is missing status.identityHash",
    )
    steps.no_schema(binding, "v1.w.g", NOW)
    assert _condition(binding, "APIExportValid") == (
        "False",
        "Error",
        "InternalError",
        'Invalid APIExport. Please contact the APIExport owner to resolve: APIResourceSchema "v1.w.g" not found',
    )
    steps.no_reference(binding, NOW)
    assert _condition(binding, "APIExportValid")[2] == "APIExportInvalidReference"


def test_once_bound_it_stays_so() -> None:
    binding = _begun()
    steps.held_by_others(
        binding,
        {"b.g": ResourceLock("other"), "a.g": ResourceLock(is_crd=True), "c.f": ResourceLock("x")},
        NOW,
    )
    why = (
        "Unable to bind APIs because they are bound by other APIBindings or CRDs: "
        "map[c.f:{x false} a.g:{ true} b.g:{other false}]"
    )
    expected = ("False", "Error", "NamingConflicts", why)
    assert _condition(binding, "BindingUpToDate") == expected
    assert _condition(binding, "InitialBindingCompleted") == expected
    steps.bound(binding, NOW)
    steps.finish(binding, NOW)
    assert binding["status"]["phase"] == "Bound"
    assert _condition(binding, "Ready")[0] == "True"
    steps.waiting(binding, ["v2.w.g", "v1.w.g"], NOW)
    steps.finish(binding, NOW)
    assert _condition(binding, "BindingUpToDate")[3] == (
        "Waiting for API(s) to be established: v1.w.g, v2.w.g"
    )
    assert _condition(binding, "InitialBindingCompleted")[0] == "True"
    assert _condition(binding, "Ready")[0] == "True"


def test_a_new_schema_takes_the_place_of_the_old_one() -> None:
    binding = _begun()
    assert steps.BoundList(binding).upsert(_schema(), "id") == ""
    other = _schema("u9", names=WIDGETS._replace(plural="gadgets"), stored_versions=())
    assert steps.BoundList(binding).upsert(other, "id") == ""
    newer = _schema("u2", name="v2.widgets.g.io", stored_versions=("v2",))
    assert steps.BoundList(binding).upsert(newer, "id") == "u1"
    assert steps.BoundList(binding).upsert(newer, "id") == ""
    assert binding["status"]["boundResources"] == [
        {
            "group": "g.io",
            "resource": "widgets",
            "schema": {"name": "v2.widgets.g.io", "UID": "u2", "identityHash": "id"},
            "storageVersions": ["v1", "v2"],
        },
        {
            "group": "g.io",
            "resource": "gadgets",
            "schema": {"name": "v1.widgets.g.io", "UID": "u9", "identityHash": "id"},
        },
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (ResourceNames("widgets", "x", (), "X", "XList"), "spec.names.plural=widgets"),
        (ResourceNames("x", "widget", (), "X", "XList"), "spec.names.singular=widget"),
        (ResourceNames("x", "y", ("a", "wd"), "X", "XList"), "spec.names.shortNames=[wd]"),
        (ResourceNames("x", "y", (), "Widget", "XList"), "spec.names.kind=Widget"),
        (ResourceNames("x", "y", (), "X", "WidgetList"), "spec.names.listKind=WidgetList"),
        (ResourceNames("x", "y", (), "X", "XList"), ""),
    ],
)
def test_names_that_others_have(names: ResourceNames, message: str) -> None:
    taken = TakenNames()
    taken.add(Taken("somebody", "other.io", WIDGETS))
    taken.add(Taken("a conflict", "g.io", names))
    if message:
        taken.add(Taken("a later one", "g.io", WIDGETS))
    expected = f"a conflict: {message} is forbidden" if message else ""
    assert steps.naming_conflict(_schema(), taken) == expected


def test_thousands_of_names_are_compared_in_linear_time() -> None:
    taken = TakenNames()
    for number in range(20_000):
        names = ResourceNames(
            f"p{number}", f"s{number}", (f"a{number}",), f"K{number}", f"K{number}List"
        )
        taken.add(Taken(f"crd {number}", "g.io", names))
    for _ in range(20_000):
        assert steps.naming_conflict(_schema(), taken) == ""


def test_who_has_them() -> None:
    def named(**export: str) -> Object:
        return {"metadata": {"name": "b"}, "spec": {"reference": {"export": export}}}

    assert steps.held_by_binding(named(name="e", path="root:org")) == (
        'naming conflict with APIBinding "b" bound to APIExport root:org:e'
    )
    assert steps.held_by_binding(named(name="e")) == (
        'naming conflict with APIBinding "b" bound to local APIExport "e"'
    )
    assert steps.held_by_crd("w.g") == 'naming conflict with CustomResourceDefinition "w.g"'


def _claim(resource: str, **more: object) -> Object:
    return {"group": "", "resource": resource, "verbs": ["*"], **more}


def test_claims() -> None:
    export: Object = {"spec": {"permissionClaims": [_claim("configmaps"), _claim("secrets")]}}
    binding: Object = {
        "metadata": {"name": "b"},
        "spec": {
            "permissionClaims": [
                _claim("configmaps", state="Accepted", selector={"matchAll": True}),
                _claim("events", state="Accepted", selector={"matchAll": True}),
                _claim("secrets", state="Rejected", selector={"matchAll": True}),
            ]
        },
    }
    state = at_once(claims.compare(export, binding))
    steps.judge_claims(binding, state, NOW)
    assert _condition(binding, "PermissionClaimsValid") == (
        "False",
        "Error",
        "InvalidPermissionClaims",
        '1 unexpected and/or invalid permission claims (showing first 1): unexpected/invalid claim for events. (identity "")',
    )
    at_once(steps.claims_applied(binding, state.expected, [], NOW))
    assert [c["resource"] for c in binding["status"]["appliedPermissionClaims"]] == ["configmaps"]
    assert "state" not in binding["status"]["appliedPermissionClaims"][0]
    at_once(steps.claims_applied(binding, [], ["a", "b", "a"], NOW))
    assert "appliedPermissionClaims" not in binding["status"]
    assert _condition(binding, "PermissionClaimsApplied")[3] == (
        "Permission claims have not been fully applied: [a, b]"
    )


def test_a_complete_binding() -> None:
    """As a fresh workspace has one, with kcp's labels."""
    export = KnownExport("root", "tenancy.kcp.io", "id", (_schema(),), {"extra.apis.kcp.io/a": "b"})
    made = steps.bound_binding(
        "t", {"path": "root", "name": "tenancy.kcp.io"}, "root:x", export, NOW
    )
    hashed = "bmCdly9xXiUpEHe3ypvDwvXMTfoVZUE92mqAQf"
    assert made["metadata"] == {
        "name": "t",
        "annotations": {"kcp.io/path": "root:x", "extra.apis.kcp.io/a": "b"},
        "labels": {
            f"claimed.internal.apis.kcp.io/{hashed}": "LstvmbbzVDDOn90ZbhzSQO5U3DMCf88h1pZ",
            "internal.apis.kcp.io/export": hashed,
        },
        "finalizers": ["apis.kcp.io/apibinding-finalizer"],
    }
    status = made["status"]
    assert status["phase"] == "Bound"
    assert [c["type"] for c in status["conditions"]] == [
        "Ready",
        "APIExportValid",
        "BindingUpToDate",
        "InitialBindingCompleted",
        "PermissionClaimsApplied",
        "PermissionClaimsValid",
    ]
    assert {c["status"] for c in status["conditions"]} == {"True"}
    assert steps.locks_of(export, "t") == {"widgets.g.io": ResourceLock("t")}
