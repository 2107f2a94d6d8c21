"""Objects whose names would take what belongs to others."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.programs.operator.objects import (
    NOW,
    again,
    configured,
    front_proxy,
    kubeconfig,
    made,
    manifest,
    root_shard,
    shard,
)

from pykcp.machinery.status import Invalid
from pykcp.programs.operator.configuration.conflicts import refusals
from pykcp.programs.operator.kinds.definitions import defaulted, read_manifest
from pykcp.programs.operator.platform import KubernetesPlatform
from pykcp.programs.operator.records import Records
from pykcp.types import Object

KUBERNETES = KubernetesPlatform()
WHY = "a shard of this name is a root shard"


def _views(name: str = "alpha") -> Object:
    external = {"hostname": "views.example.com", "port": 443}
    target = {"rootShardRef": {"name": "root"}}
    return made("VirtualWorkspace", name, target=target, external=external)


def _cache(name: str) -> Object:
    return made("CacheServer", name, certificates={})


def _shard_called_root() -> Object:
    """One that an earlier version has accepted."""
    obj = manifest("Shard", "root", rootShard={"ref": {"name": "root"}})
    obj["metadata"]["namespace"] = "kcp"
    return defaulted(obj)


def _at(obj: Object, created: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "creationTimestamp": created}}


def test_a_shard_called_root_is_refused_when_it_is_created() -> None:
    with pytest.raises(Invalid, match=WHY):
        read_manifest(manifest("Shard", "root", rootShard={"ref": {"name": "root"}}), "kcp")


def test_a_shard_called_root_leaves_the_root_shard_alone() -> None:
    first = configured(root_shard(), platform=KUBERNETES)
    both = again(first, root_shard(), _shard_called_root(), now=NOW, platform=KUBERNETES)
    assert WHY in both.problems["Shard", "root"].message
    assert both.records.changed == {}
    assert [one.revision for one in both.workloads] == [one.revision for one in first.workloads]
    assert not list(both.unneeded(of_deleted=False))


def test_what_a_shard_called_root_has_taken_is_given_back() -> None:
    first = configured(root_shard(), platform=KUBERNETES)
    taken = Records(first.records)
    for record in list(taken):
        if record.name == "root-service-account":
            assert record.owner is not None
            owner = type(record.owner)("Shard", "root", "uid")
            taken = Records([*(r for r in taken if r is not record), type(record)(
                record.name, record.data, record.kind, record.labels, record.annotations, owner, record.type,
            )])  # fmt: skip
    out = configured(root_shard(), _shard_called_root(), records=taken, platform=KUBERNETES)
    held = out.records.secret("root-service-account")
    assert held is not None
    assert held.owner is not None
    assert held.owner.kind == "RootShard"
    assert [name for _, name in out.records.changed] == ["root-service-account"]


OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


@pytest.mark.parametrize(
    ("objects", "refused"),
    [
        ([root_shard(), shard(), _views("views"), _cache("cache")], None),
        ([shard(), _views()], ("VirtualWorkspace", "alpha")),
        ([_views(), shard()], ("VirtualWorkspace", "alpha")),
        ([_cache("root"), root_shard()], ("CacheServer", "root")),
        ([_at(_views(), OLD), _at(shard(), NEW)], ("Shard", "alpha")),
        ([_at(_views(), NEW), _at(shard(), OLD)], ("VirtualWorkspace", "alpha")),
        ([front_proxy("root"), kubeconfig("root"), root_shard()], None),
    ],
)
def test_of_equal_names_the_older_one_counts(
    objects: list[Object], refused: tuple[str, str] | None
) -> None:
    found = refusals({(one["kind"], one["metadata"]["name"]): one for one in objects}, Records())
    assert list(found) == ([refused] if refused else [])


@pytest.mark.parametrize(
    ("first", "second"), [(shard(), _views()), (_views(), shard()), (shard(), _cache("alpha"))]
)
def test_the_second_one_of_a_name_changes_nothing(first: Object, second: Object) -> None:
    before = configured(root_shard(), first, platform=KUBERNETES)
    assert before.problems == {}
    after = again(before, root_shard(), first, second, now=NOW, platform=KUBERNETES)
    key = (second["kind"], "alpha")
    assert list(after.problems) == [key]
    assert after.problems[key].reason == "NameConflict"
    assert f'{first["kind"]} "alpha" has this name' in after.problems[key].message
    assert after.records.changed == {}
    assert {one.name for one in after.workloads} == {one.name for one in before.workloads}


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (shard("root-proxy"), 'Secret "root-proxy-server" belongs to RootShard "root"'),
        (front_proxy("root-proxy"), 'Secret "root-proxy-merged-client-ca" belongs to RootShard "root"'),
        (kubeconfig(secretRef={"name": "root-ca"}), 'Secret "root-ca" belongs to RootShard "root"'),
        (kubeconfig(secretRef={"name": "root-kcp-operator"}), 'Secret "root-kcp-operator" belongs'),
    ],
)  # fmt: skip
def test_a_record_of_another_object_is_not_taken_over(obj: Object, message: str) -> None:
    objects = [root_shard(), front_proxy()]
    before = configured(*objects, platform=KUBERNETES)
    after = again(before, *objects, obj, now=NOW, platform=KUBERNETES)
    (problem,) = after.problems.values()
    assert problem.reason == "NameConflict"
    assert message in problem.message
    names = {name for _, name in after.records.changed}
    assert not any(name in message for name in names)
    for name in ("root-ca", "root-proxy-server", "root-kcp-operator"):
        assert after.records.secret(name) == before.records.secret(name)


def test_two_kubeconfigs_do_not_write_one_secret_in_turns() -> None:
    same: dict[str, Any] = {"secretRef": {"name": "shared"}}
    objects = [root_shard(), front_proxy(), kubeconfig("a", **same), kubeconfig("b", **same)]
    out = configured(*objects)
    assert list(out.problems) == [("Kubeconfig", "b")]
    second = again(out, *objects, now=NOW, platform=KUBERNETES)
    assert ("Secret", "shared") not in second.records.changed


def test_a_name_is_free_when_its_object_is_gone() -> None:
    before = configured(root_shard(), shard(), platform=KUBERNETES)
    after = again(before, root_shard(), _views(), now=NOW, platform=KUBERNETES)
    assert after.problems == {}


def test_workloads_of_one_name_are_not_run_in_turns() -> None:
    """The proxy of RootShard `x-front` and FrontProxy `x` would be one Deployment."""
    root = root_shard()
    root["metadata"]["name"] = "x-front"
    proxy = made("FrontProxy", "x", rootShard={"ref": {"name": "x-front"}})
    out = configured(root, proxy, platform=KUBERNETES)
    assert list(out.problems) == [("FrontProxy", "x")]
    assert 'workload "x-front-proxy" belongs to RootShard "x-front"' in str(
        out.problems["FrontProxy", "x"]
    )
