"""What is undone inside of installations, by which way, and when there is nothing to undo."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.programs.operator.objects import (
    NAMESPACE,
    front_proxy,
    kubeconfig,
    manifest,
    root_shard,
    shard,
)

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.machinery.status import Forbidden
from pykcp.programs.operator.access import connections
from pykcp.programs.operator.access.rbac import BindingPlace, recorded
from pykcp.programs.operator.cluster.cleanup import Cleanup
from pykcp.programs.operator.configuration.world import World, name_of
from pykcp.programs.operator.kinds.definitions import defaulted
from pykcp.programs.operator.names import RBAC_CLEANUP, SHARD_CLEANUP
from pykcp.programs.operator.pki.issuance import Issuance
from pykcp.programs.operator.platform import KubernetesPlatform
from pykcp.programs.operator.records import Records
from pykcp.types import Object

ROLES = {"clusterRoleBindings": {"clusterRoles": ["admin"]}}


class _Host:
    """The cluster of the objects: keeps what is changed."""

    def __init__(self, obj: Object) -> None:
        self.obj = obj

    async def change(self, *words: Any) -> Object:
        change: Callable[[Object], object] = words[3]
        change(self.obj)
        return self.obj


class _Installation:
    """Answers by one way; notes what is asked of it."""

    def __init__(self, way: str, asked: list[str], error: Exception | None) -> None:
        self._way, self._asked, self._error = way, asked, error
        self.http = SimpleNamespace(close=lambda: None)

    async def list(self, *_place: Any, **_selection: str) -> list[Object]:
        self._asked.append(self._way)
        if self._error is not None:
            raise self._error
        return []

    async def delete(self, *_place: Any) -> None:
        self._asked.append(self._way)

    async def get(self, _cluster: str, _kind: object, name: str) -> Object | None:
        return None if name == "deleted" else {"metadata": {"name": name}}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return _ways(monkeypatch, None)


def _ways(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> list[str]:
    asked: list[str] = []

    def made(way: str) -> Callable[..., _Installation]:
        return lambda *_: _Installation(way, asked, error)

    monkeypatch.setattr(connections, "root_client", made("root"))
    monkeypatch.setattr(connections, "target_client", made("target"))
    monkeypatch.setattr(connections, "installation_client", made("installation"))
    return asked


def _cleanup(obj: Object, *others: Object) -> tuple[Cleanup, _Host]:
    host = _Host(obj)
    world = World.of(
        NAMESPACE, [obj, *others], Records(), KubernetesPlatform(), cast("Issuance", None)
    )
    return Cleanup(cast("Client", host), world), host


def _user(place: BindingPlace, **spec: Any) -> Object:
    obj = kubeconfig(authorization=ROLES, **spec)
    obj["metadata"] |= {"uid": "u", "finalizers": [RBAC_CLEANUP], "deletionTimestamp": "now"}
    return {**obj, "status": {"authorization": recorded(place)}}


THERE = BindingPlace("root", "root", "FrontProxy/frontproxy")
OLD = BindingPlace("root")
SECOND = BindingPlace("root", "second", "FrontProxy/frontproxy")


@pytest.mark.parametrize(
    ("place", "others", "ways"),
    [
        (THERE, [root_shard(), front_proxy()], ["target"]),
        (THERE, [root_shard()], ["installation"]),
        (THERE, [front_proxy()], []),
        (THERE, [], []),
        # Earlier versions did not record the RootShard.
        (OLD, [root_shard(), front_proxy()], ["installation"]),
        (OLD, [root_shard()], ["installation"]),
        (OLD, [], []),
        # Another installation, which is gone.
        (SECOND, [root_shard(), front_proxy()], []),
    ],
)
async def test_roles_are_taken_back_as_long_as_the_root_shard_exists(
    asked: list[str], place: BindingPlace, others: list[Object], ways: list[str]
) -> None:
    cleanup, host = _cleanup(_user(place), *others)
    await cleanup.tend(host.obj, is_available=True)
    assert asked == ways
    assert host.obj["metadata"]["finalizers"] == []


@pytest.mark.parametrize(
    ("place", "others", "is_released"),
    [
        (BindingPlace("root:deleted", "root", "FrontProxy/frontproxy"), [root_shard()], True),
        (BindingPlace("root:there", "root", "FrontProxy/frontproxy"), [root_shard()], False),
        # What a shard had that is gone, and was not moved, is gone with it.
        (BindingPlace("root:there", "root", "Shard/alpha"), [root_shard()], True),
        (BindingPlace("root:there", "root", "Shard/alpha"), [root_shard(), shard()], False),
        (THERE, [root_shard()], False),
    ],
)
async def test_a_workspace_that_does_not_answer_is_waited_for_unless_it_is_gone(
    monkeypatch: pytest.MonkeyPatch, place: BindingPlace, others: list[Object], is_released: bool
) -> None:
    _ways(monkeypatch, Forbidden("workspace access not permitted"))
    cleanup, host = _cleanup(_user(place, targetWorkspace=place.cluster), *others)
    if is_released:
        await cleanup.tend(host.obj, is_available=True)
    else:
        with pytest.raises(Forbidden):
            await cleanup.tend(host.obj, is_available=True)
    assert (host.obj["metadata"]["finalizers"] == []) == is_released


async def test_an_installation_that_has_no_certificates_is_waited_for() -> None:
    """It exists, and so do the bindings."""
    cleanup, host = _cleanup(_user(THERE), root_shard())
    with pytest.raises(SendFailed, match="does not exist"):
        await cleanup.tend(host.obj, is_available=True)
    assert host.obj["metadata"]["finalizers"] == [RBAC_CLEANUP]


def _deleted_shard(name: str) -> Object:
    obj = manifest("Shard", name, rootShard={"ref": {"name": "root"}})
    held = {"namespace": NAMESPACE, "finalizers": [SHARD_CLEANUP], "deletionTimestamp": "now"}
    obj["metadata"] |= held
    return defaulted(obj)


@pytest.mark.parametrize(("name", "ways"), [("alpha", ["root"]), ("root", [])])
async def test_a_refused_shard_does_not_unregister_the_one_whose_name_it_has(
    asked: list[str], name: str, ways: list[str]
) -> None:
    cleanup, host = _cleanup(_deleted_shard(name), root_shard())
    await cleanup.tend(host.obj, is_available=False)
    assert asked == ways
    assert host.obj["metadata"]["finalizers"] == []
    assert name_of(host.obj) == name
