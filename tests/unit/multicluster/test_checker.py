"""What counts as a delete without proof in the requests that a proxy saw."""

from __future__ import annotations

import json

import pytest

from pykcp.testing.multicluster.checker import delete_problems
from pykcp.testing.multicluster.faults import SeenRequest

PLACE = "/api/v1/namespaces/kcp-1"
MAP = f"{PLACE}/configmaps/settings"
WEB = "/apis/apps/v1/namespaces/kcp-1/deployments/web"
UID = {"preconditions": {"uid": "1"}}


def seen(method: str, path: str, status: int = 200, body: object = None) -> SeenRequest:
    return SeenRequest(0.0, method, path, "", json.dumps(body).encode() if body else b"", status)


CASES = {
    "nothing": ([], []),
    "writes": ([seen("PATCH", MAP), seen("PATCH", PLACE)], []),
    "a delete with proof": ([seen("PATCH", MAP), seen("DELETE", MAP, body=UID)], []),
    "a delete of another object": (
        [seen("PATCH", WEB), seen("DELETE", WEB, body=UID)],
        [f"I7: {WEB} was deleted without proof"],
    ),
    "a delete without a UID": (
        [seen("DELETE", MAP)],
        [f"I7: {MAP} was deleted without a UID"],
    ),
    "a delete that was rejected": ([seen("DELETE", WEB, 409, UID)], []),
    "a namespace that is empty": (
        [seen("PATCH", MAP), seen("DELETE", MAP, body=UID), seen("DELETE", PLACE, body=UID)],
        [],
    ),
    "a namespace with a copy": (
        [seen("PATCH", MAP), seen("PATCH", WEB), seen("DELETE", PLACE, body=UID)],
        [f"I7: {PLACE} was deleted with configmaps/settings, deployments/web"],
    ),
    "a namespace with a copy that could not be written": (
        [seen("PATCH", WEB, 403), seen("DELETE", PLACE, body=UID)],
        [],
    ),
    "a namespace without a UID": (
        [seen("DELETE", PLACE)],
        [f"I7: {PLACE} was deleted without a UID"],
    ),
    "an object without a namespace": (
        [seen("DELETE", "/api/v1/persistentvolumes/disk", body=UID)],
        ["I7: /api/v1/persistentvolumes/disk was deleted without proof"],
    ),
}


@pytest.mark.parametrize(("requests", "problems"), CASES.values(), ids=CASES)
def test_deletes_without_proof(requests: list[SeenRequest], problems: list[str]) -> None:
    assert delete_problems(requests, proven=("settings",)) == problems
