from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pykcp.apis import columns
from pykcp.apis.catalog import definition_of
from pykcp.machinery.durations import age_since, human_duration

NOW = datetime(2024, 1, 2, tzinfo=UTC)
META = {"name": "x", "creationTimestamp": "2024-01-01T00:00:00Z"}
RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"


def row(group: str, plural: str, obj: dict[str, Any], version: str = "v1") -> list[Any]:
    table = definition_of(group, plural).columns(version)
    return next(iter(columns.rows(table, [{"metadata": META, **obj}], NOW)))


@pytest.mark.parametrize(
    ("group", "plural", "obj", "cells"),
    [
        ("", "configmaps", {"data": {"a": "1"}, "binaryData": {"b": "", "c": ""}}, ["x", 3, "24h"]),
        ("", "secrets", {"type": "Opaque", "data": {"a": ""}}, ["x", "Opaque", 1, "24h"]),
        ("", "namespaces", {"status": {"phase": "Active"}}, ["x", "Active", "24h"]),
        ("", "serviceaccounts", {}, ["x", "24h"]),
        (
            "",
            "resourcequotas",
            {
                "status": {
                    "hard": {"pods": "5", "limits.cpu": "2", "cpu": "1"},
                    "used": {"pods": "1", "cpu": "500m"},
                }
            },
            ["x", "cpu: 500m/1, pods: 1/5", "limits.cpu: 0/2", "24h"],
        ),
        (RBAC, "roles", {}, ["x", "2024-01-01T00:00:00Z"]),
        (
            RBAC,
            "rolebindings",
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "u1"},
                    {"kind": "User", "name": "u2"},
                    {"kind": "Group", "name": "g"},
                    {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
                ],
            },
            ["x", "Role/r", "24h", "u1, u2", "g", "n/s"],
        ),
        ("coordination.k8s.io", "leases", {"spec": {"holderIdentity": "me"}}, ["x", "me", "24h"]),
        ("coordination.k8s.io", "leases", {"spec": {}}, ["x", "", "24h"]),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            {
                "spec": {"signerName": "a/b", "username": "u", "expirationSeconds": 3600},
                "status": {"conditions": [{"type": "Approved"}], "certificate": "x"},
            },
            ["x", "24h", "a/b", "u", "60m", "Approved,Issued"],
        ),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            {"spec": {"request": None, "signerName": ""}, "status": {}},
            ["x", "24h", "<none>", "", "<none>", "Pending"],
        ),
        (ADMISSION, "mutatingwebhookconfigurations", {"webhooks": [{}, {}]}, ["x", 2, "24h"]),
        (
            ADMISSION,
            "validatingadmissionpolicies",
            {"spec": {"validations": [{}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}},
            ["x", 1, "v1/ConfigMap", "24h"],
        ),
        (
            ADMISSION,
            "validatingadmissionpolicybindings",
            {"spec": {"policyName": "p", "paramRef": {"name": "n"}}},
            ["x", "p", "*/n", "24h"],
        ),
        (
            ADMISSION,
            "mutatingadmissionpolicybindings",
            {"spec": {"policyName": "p", "paramRef": {"selector": {"matchLabels": {"a": "b"}}}}},
            [
                "x",
                "p",
                (
                    "&LabelSelector{MatchLabels:map[string]string{a: b,},"
                    "MatchExpressions:[]LabelSelectorRequirement{},}"
                ),
                "24h",
            ],
        ),
    ],
)
def test_cells(group: str, plural: str, obj: dict[str, Any], cells: list[Any]) -> None:
    assert row(group, plural, obj) == cells


def test_events_of_both_groups_look_the_same() -> None:
    core = row(
        "",
        "events",
        {
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "f"},
            "reason": "R",
            "message": " m\n",
            "type": "Normal",
            "source": {"component": "c", "host": "h"},
            "firstTimestamp": "2024-01-01T23:50:00Z",
            "lastTimestamp": "2024-01-01T23:59:50Z",
            "count": 4,
        },
    )
    assert core == ["10s", "Normal", "R", "pod/p", "f", "c, h", "m", "10m", 4, "x"]
    new = row(
        "events.k8s.io",
        "events",
        {
            "regarding": {"kind": "Pod", "name": "p", "fieldPath": "f"},
            "reason": "R",
            "note": "m",
            "type": "Normal",
            "reportingController": "c",
            "reportingInstance": "h",
            "eventTime": "2024-01-01T23:50:00.000000Z",
            "series": {"count": 4, "lastObservedTime": "2024-01-01T23:59:50.000000Z"},
        },
    )
    assert new == core


def test_an_event_without_times_or_count() -> None:
    bare = row("", "events", {"involvedObject": {"kind": "Pod"}})
    assert bare == ["<unknown>", "", "", "pod", "", "", "", "<unknown>", 1, "x"]


def test_custom_kinds_show_null_for_what_is_missing() -> None:
    cells = row("core.kcp.io", "logicalclusters", {"status": {"phase": "Ready"}}, "v1alpha1")
    assert cells == ["x", "Ready", None, "24h"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (192, "3m12s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (12000, "3h20m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (800 * 86400, "2y70d"),
        (3650 * 86400, "10y"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_ages_of_what_is_no_time() -> None:
    assert age_since(None, NOW) == "<unknown>"
    assert age_since("yesterday", NOW) == "<invalid>"
    assert age_since("2024-01-01", NOW) == "<invalid>"
