"""`kr8s`: verbs, discovery by kind, watch, patches, owners, waiting, errors."""

# ruff: noqa: PT017 -- a program of its own, without pytest

from __future__ import annotations

import os

import kr8s
from kr8s.objects import ConfigMap, Namespace, Secret

NAMESPACE = os.environ["TEST_NAMESPACE"]


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "data": data,
        }
    )


def everyday_work() -> None:
    one = config_map("one", colour="blue")
    one.create()
    assert one.exists()
    one.patch({"data": {"colour": "red"}})
    assert one.data.colour == "red"
    one.patch([{"op": "add", "path": "/data/size", "value": "big"}], type="json")
    assert one.data.size == "big"
    one.label({"app": "kr8s"})
    one.annotate({"note": "hello"})
    found = list(kr8s.get("configmaps", namespace=NAMESPACE, label_selector={"app": "kr8s"}))
    assert [item.name for item in found] == ["one"]
    assert found[0].annotations["note"] == "hello"
    assert [item.name for item in kr8s.get("cm", "one", namespace=NAMESPACE)] == ["one"]
    one.delete()
    one.wait("delete", timeout=20)
    assert not one.exists()


def errors() -> None:
    try:
        ConfigMap.get("missing", namespace=NAMESPACE)
    except kr8s.NotFoundError:
        pass
    else:
        raise AssertionError("found what is not there")
    try:
        config_map("A b").create()
    except kr8s.ServerError as error:
        assert error.response is not None
        assert error.response.status_code == 422
        assert "Invalid value" in str(error), error
    else:
        raise AssertionError("took a name that is none")


def follow() -> None:
    watched = config_map("watched", step="1")
    watched.create()
    seen = []
    for event, item in kr8s.watch(
        "configmaps", namespace=NAMESPACE, field_selector="metadata.name=watched"
    ):
        seen.append(event)
        if event == "ADDED":
            item.patch({"data": {"step": "2"}})
        elif event == "MODIFIED":
            item.delete()
        else:
            break
    assert seen == ["ADDED", "MODIFIED", "DELETED"], seen


def owners() -> None:
    """What is owned goes with its owner."""
    owner, owned = config_map("owner"), config_map("owned")
    owner.create()
    owned.create()
    owned.set_owner(owner)
    owner.delete(propagation_policy="Foreground")
    owned.wait("delete", timeout=20)
    assert not owned.exists()


def lookups() -> None:
    assert kr8s.version()["minor"] == "36"
    assert kr8s.whoami()
    names = {resource["name"] for resource in kr8s.api_resources()}
    assert {"configmaps", "leases", "clusterroles"} <= names
    assert NAMESPACE in [item.name for item in Namespace.list()]
    secret = Secret(
        {"metadata": {"name": "secret", "namespace": NAMESPACE}, "stringData": {"a": "b"}}
    )
    secret.create()
    secret.refresh()
    assert secret.data.a == "Yg=="


lookups()
everyday_work()
errors()
follow()
owners()
