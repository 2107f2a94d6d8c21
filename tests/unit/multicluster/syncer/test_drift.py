"""Whether a copy still has all that was applied."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.multicluster.syncer.drift import covers, without_volatile


@pytest.mark.parametrize(
    ("live", "applied", "is_intact"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 2}, {"a": 1}, False),
        ({}, {"a": 1}, False),
        ({"a": True}, {"a": 1}, True),
        ({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": 1}}}, True),
        ({}, {"a": {}, "b": [], "c": None}, True),
        ({"cpu": "1"}, {"cpu": "1000m"}, True),
        ({"cpu": "1"}, {"cpu": 1}, True),
        ({"cpu": "2"}, {"cpu": "1000m"}, False),
        ({"memory": "1Gi"}, {"memory": "1024Mi"}, True),
        ({"args": ["a", "b"]}, {"args": ["b", "a"]}, False),
        ({"args": ["a", "b", "c"]}, {"args": ["a", "b"]}, False),
        (
            {"containers": [{"name": "sidecar"}, {"name": "main", "image": "x", "tty": False}]},
            {"containers": [{"name": "main", "image": "x"}]},
            True,
        ),
        ({"containers": [{"name": "main", "image": "y"}]}, {"containers": [{"name": "main", "image": "x"}]}, False),
        ({"ports": [{"port": 80, "protocol": "TCP"}]}, {"ports": [{"port": 80}]}, True),
        ({"ports": []}, {"ports": [{"port": 80}]}, False),
        ({"a": "text"}, {"a": ["text"]}, False),
        ({"a": "text"}, {"a": {"b": 1}}, False),
    ],
)  # fmt: skip
def test_a_copy_is_intact_if_it_has_every_applied_field(
    live: Any, applied: Any, is_intact: bool
) -> None:
    assert covers(live, applied) is is_intact


def test_what_every_write_changes_does_not_count() -> None:
    obj = {
        "metadata": {"name": "a", "resourceVersion": "1", "managedFields": [], "generation": 2},
        "spec": {"b": 1},
        "status": {"c": 2},
    }
    assert without_volatile(obj) == {"metadata": {"name": "a"}, "spec": {"b": 1}}
