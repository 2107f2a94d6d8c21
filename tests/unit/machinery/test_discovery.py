from __future__ import annotations

import dataclasses

from pykcp.apis.catalog import builtin_definitions
from pykcp.machinery import discovery

DEFINITIONS = builtin_definitions()


def test_groups_come_in_order_and_say_where_they_are() -> None:
    groups = discovery.api_group_list(DEFINITIONS, "host:1")["groups"]
    names = [g["name"] for g in groups]
    assert names[0] == "authentication.k8s.io"
    assert names[:8] == list(dict.fromkeys(names))[:8]
    by_name = {g["name"]: g for g in groups}
    address = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "host:1"}]
    assert by_name["rbac.authorization.k8s.io"]["serverAddressByClientCIDRs"] == address
    assert "serverAddressByClientCIDRs" not in by_name["core.kcp.io"]


def test_custom_groups_come_last_and_by_name() -> None:
    """Whatever the order of the definitions: clients resolve short names by it."""
    custom = [
        dataclasses.replace(DEFINITIONS[0], group=group, plural=plural, native=False)
        for plural, group in (
            ("aaas", "test.com"), ("bbbs", "bar.com"), ("cccs", "batch"), ("ddds", "apps"),
        )
    ]  # fmt: skip
    own = discovery.group_names(DEFINITIONS)
    native = [group for group in own if not group.endswith(".kcp.io")]
    expected = [*native, "apps", "batch", *own[len(native) :], "bar.com", "test.com"]
    assert discovery.group_names([*DEFINITIONS, *custom]) == expected
    items = discovery.aggregated([*DEFINITIONS, *custom])["items"]
    assert [item["metadata"].get("name", "") for item in items] == ["", *expected]


def test_a_group() -> None:
    assert discovery.api_group(DEFINITIONS, "coordination.k8s.io") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "coordination.k8s.io",
        "versions": [{"groupVersion": "coordination.k8s.io/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "coordination.k8s.io/v1", "version": "v1"},
    }


def test_resources_of_a_group_version() -> None:
    resources = discovery.api_resource_list(DEFINITIONS, "", "v1")
    assert "apiVersion" not in resources
    by_name = {r["name"]: r for r in resources["resources"]}
    assert by_name["configmaps"] == {
        "name": "configmaps",
        "singularName": "configmap",
        "namespaced": True,
        "kind": "ConfigMap",
        "verbs": [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
        "shortNames": ["cm"],
        "storageVersionHash": "BcsYVNKF43M=",
    }
    assert by_name["serviceaccounts/token"] == {
        "name": "serviceaccounts/token",
        "singularName": "",
        "namespaced": True,
        "group": "authentication.k8s.io",
        "version": "v1",
        "kind": "TokenRequest",
        "verbs": ["create"],
    }
    assert "deletecollection" not in by_name["namespaces"]["verbs"]


def test_the_aggregated_form() -> None:
    document = discovery.aggregated(DEFINITIONS)
    assert document["apiVersion"] == "apidiscovery.k8s.io/v2"
    core = document["items"][0]
    assert core["metadata"] == {}
    namespaces = next(r for r in core["versions"][0]["resources"] if r["resource"] == "namespaces")
    assert namespaces["scope"] == "Cluster"
    assert namespaces["responseKind"] == {"group": "", "version": "", "kind": "Namespace"}
    assert [s["subresource"] for s in namespaces["subresources"]] == ["finalize", "status"]


def test_versions_are_ordered_as_kubernetes_orders_them() -> None:
    versions = ["foo1", "v1alpha1", "v11beta2", "v2", "v10", "v1", "v3beta1", "v12alpha1"]
    assert sorted(versions, key=discovery.version_priority) == [
        "v10",
        "v2",
        "v1",
        "v11beta2",
        "v3beta1",
        "v12alpha1",
        "v1alpha1",
        "foo1",
    ]
