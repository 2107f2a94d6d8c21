"""LogicalCluster: its schema, and what ordinary users may not change."""

from collections.abc import Callable
from typing import Any

import pytest

from pykcp.apis.kube.validation import logicalcluster
from pykcp.types import Object

KIND = ("core.kcp.io", "logicalclusters")
OWNER = {
    "apiVersion": "tenancy.kcp.io/v1alpha1", "resource": "workspaces", "name": "x",
    "cluster": "root", "uid": "1",
}  # fmt: skip
BASE: Object = {"metadata": {"name": "cluster"}, "spec": {"owner": OWNER}}


@pytest.mark.parametrize(
    ("patch", "errors"),
    [
        ({}, []),
        ({"spec": {"initializers": ["system:apibindings", "root:org:my-type"]}}, []),
        (
            {"metadata": {"name": "other"}},
            ['metadata.name: Unsupported value: "other": supported values: "cluster"'],
        ),
        ({"spec": {"owner": {"uid": None}}}, ["spec.owner.uid: Required value"]),
        (
            {"spec": {"owner": {"name": ""}}},
            [
                (
                    'spec.owner.name: Invalid value: "": '
                    "spec.owner.name in body should be at least 1 chars long"
                )
            ],
        ),
        (
            {"spec": {"owner": {"apiVersion": "a/b/c"}}},
            [
                (
                    'spec.owner.apiVersion: Invalid value: "a/b/c": '
                    "spec.owner.apiVersion in body should match '^([^/]+/)?[^/]+$'"
                )
            ],
        ),
    ],
)
def test_schema(created: Callable[..., Any], patch: Object, errors: list[str]) -> None:
    assert created(*KIND, BASE, patch).errors == errors


def test_bad_initializers_and_phases(
    created: Callable[..., Any], updated: Callable[..., Any]
) -> None:
    errors = created(*KIND, BASE, {"spec": {"initializers": ["Nope"]}}).errors
    assert [error.split(":")[0] for error in errors] == ["spec.initializers[0]"]
    stored = created(*KIND, BASE, {}).obj
    assert stored["spec"]["directlyDeletable"] is False
    outcome = updated(*KIND, stored, {"status": {"phase": "Odd"}}, "status")
    assert outcome.errors[0].startswith('status.phase: Unsupported value: "Odd"')
    outcome = updated(*KIND, stored, {"status": {"phase": "Ready"}}, "status")
    assert outcome.errors == []
    assert outcome.obj["status"]["phase"] == "Ready"


def lc(phase: str, spec: list[str], status: list[str], **more: Any) -> Object:
    return {
        "metadata": {"annotations": more.get("annotations", {})},
        "spec": {"initializers": spec, "createdBy": {"username": more.get("by", "alice")}},
        "status": {"phase": phase, "initializers": status},
    }


INACTIVE = {"core.kcp.io/inactive": "true"}


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        (lc("Initializing", ["a", "b"], ["a", "b"]), lc("Initializing", ["a", "b"], ["b"]), None),
        (lc("Initializing", ["a"], []), lc("Ready", ["a"], []), None),
        (lc("Ready", [], []), lc("Ready", [], [], annotations=INACTIVE), None),
        (
            lc("Ready", [], []),
            lc("Ready", [], [], by="bob"),
            'spec.createdBy: Invalid value: {"username":"bob"}: field is immutable',
        ),
        (lc("Ready", ["a"], []), lc("Ready", ["b"], []), "spec.initializers is immutable"),
        (
            lc("Scheduling", ["a"], []),
            lc("Initializing", ["a"], []),
            "status.initializers do not equal spec.initializers",
        ),
        (
            lc("Initializing", ["a"], []),
            lc("Initializing", ["a"], ["a"]),
            "status.initializers must not grow",
        ),
        (
            lc("Ready", ["a"], []),
            lc("Ready", ["a"], ["a"]),
            "status.initializers is immutable after initialization",
        ),
        (
            lc("Initializing", ["a"], ["a"]),
            lc("Ready", ["a"], ["a"]),
            "status.initializers is not empty",
        ),
        (
            lc("Ready", [], []),
            lc("Scheduling", [], []),
            'cannot transition from "Ready" to "Scheduling"',
        ),
        (
            lc("Scheduling", [], []),
            lc("Scheduling", [], [], annotations=INACTIVE),
            (
                'LogicalCluster can only be marked inactive in phase "Ready", '
                'but is in phase "Scheduling"'
            ),
        ),
    ],
)
def test_refusals(old: Object, new: Object, refusal: str | None) -> None:
    assert logicalcluster.refusal(new, old) == refusal


def test_the_steps_due_are_copied_once() -> None:
    new = lc("Initializing", ["a"], [])
    new["spec"]["terminators"] = ["t"]
    logicalcluster.begin_initializing(new, lc("Scheduling", ["a"], []))
    assert new["status"] == {
        "phase": "Initializing", "initializers": ["a"], "terminators": ["t"],
    }  # fmt: skip
    later = lc("Initializing", ["a"], [])
    logicalcluster.begin_initializing(later, new)
    assert later["status"]["initializers"] == []
