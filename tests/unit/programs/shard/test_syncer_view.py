"""What a syncer may change in an object that is assigned to its cluster."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from pykcp.programs.shard.multicluster.syncer_view import assigned_problem
from pykcp.types import Object

OWN = "workloads.kcp.dev/syncer-east"
OBJECT: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "settings",
        "labels": {"workloads.kcp.dev/cluster": "east"},
        "annotations": {"example.com/a": "b"},
        "finalizers": ["example.com/first", OWN],
        "resourceVersion": "1",
    },
    "data": {"a": "b"},
}


def _without_own(obj: Object) -> None:
    obj["metadata"]["finalizers"].remove(OWN)


def _first_gone(obj: Object) -> None:
    obj["metadata"]["finalizers"] = [OWN]


def _noted(obj: Object) -> None:
    obj["metadata"]["annotations"]["workloads.kcp.dev/sync-state"] = "{}"


def _other_note(obj: Object) -> None:
    obj["metadata"]["annotations"]["example.com/a"] = "c"


def _status(obj: Object) -> None:
    obj["status"] = {"phase": "Active"}


def _label(obj: Object) -> None:
    obj["metadata"]["labels"] = {}


def _data(obj: Object) -> None:
    obj["data"] = {}


def _bookkeeping(obj: Object) -> None:
    obj["metadata"] |= {"resourceVersion": "2", "managedFields": [], "generation": 3}


@pytest.mark.parametrize(("change", "is_allowed"), [
    (_without_own, True), (_noted, True), (_status, True), (_bookkeeping, True),
    (_first_gone, False), (_other_note, False), (_label, False), (_data, False),
])  # fmt: skip
def test_changes(change: Callable[[Object], None], is_allowed: bool) -> None:
    new = copy.deepcopy(OBJECT)
    change(new)
    assert (assigned_problem(OBJECT, new, OWN) == "") is is_allowed


def test_nothing_is_created_or_deleted() -> None:
    assert assigned_problem(None, OBJECT, OWN)
    assert assigned_problem(OBJECT, None, OWN)
