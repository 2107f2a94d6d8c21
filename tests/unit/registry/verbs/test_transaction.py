"""Transactions: each write passes the checks that it would pass alone, and all commit or none."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from pykcp.admission.chain import AdmissionChain
from pykcp.admission.plugins.object_count import ANNOTATION, ObjectCountLimit
from pykcp.admission.plugins.resource_quota import RESOURCE_QUOTAS, Quotas, ResourceQuota
from pykcp.apis.catalog import ResourceDefinition, builtin_definitions, definition_of
from pykcp.controllers.apis.binding import KnownExport, bound_binding
from pykcp.controllers.kube.root_ca import ca_map
from pykcp.controllers.tenancy.provisioning import admin_binding, universal_namespace
from pykcp.machinery.resources import (
    API_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    LOGICAL_CLUSTERS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    GroupVersionResource,
)
from pykcp.machinery.status import AlreadyExists, Conflict, Forbidden, Invalid
from pykcp.registry import codec
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.catalog.make import make_resource
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.local import LocalClient
from pykcp.registry.resource import Resource, Services
from pykcp.registry.trash import trash_key
from pykcp.registry.verbs.admitting import Admission, AdmissionRequest, NoAdmission
from pykcp.registry.verbs.templates import ObjectTemplate, TemplateCopy
from pykcp.registry.verbs.transaction import Delete, FromTemplate, Raw, Write
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import PutKey
from pykcp.types import Object

NOW = "2027-01-15T08:00:00Z"
COUNT = "count/configmaps"


class Registry:
    def __init__(self, admission: Admission | None = None) -> None:
        self.store = MemoryStore()
        chain = AdmissionChain()
        numbers = itertools.count(1)
        self.skip = partial(next, numbers)
        clock = Timestamps(lambda: 1.8e9)
        sources = Sources(clock, uid=lambda: f"00000000-0000-4000-8000-{next(numbers):012}")
        services = Services(self.store, WatchHub(self.store), admission or chain, sources)

        def make(definition: ResourceDefinition, version: str) -> Resource:
            return make_resource(definition, version, services)

        bindings = definition_of(API_BINDINGS.group, API_BINDINGS.resource)
        self.directory = Directory((*builtin_definitions(), bindings), make)
        limit = ObjectCountLimit(self.store, self.directory, 0)
        chain.install([], [limit, ResourceQuota(self.store, Quotas(self.store))])
        self.client = LocalClient(self.directory, "system:serviceaccount:kube-system:kcp-workspace")

    def config_map(self, name: str, namespace: str = "default") -> Write:
        obj = {"metadata": {"name": name, "namespace": namespace}}
        return self.client.to_create("one", CONFIG_MAPS, obj)

    def new_cluster(self, cluster: str) -> Write:
        owner = {"apiVersion": "v1", "resource": "x", "name": "x", "cluster": "x", "uid": "x"}
        obj = {"metadata": {"name": "cluster"}, "spec": {"owner": owner}}
        return self.client.to_create(cluster, LOGICAL_CLUSTERS, obj)

    def names(self, prefix: str) -> list[str]:
        return [key.rpartition("/")[2] for key in self.store.keys(prefix)]


async def _quota(registry: Registry, limit: int, namespace: str = "default") -> None:
    quota = {
        "metadata": {"name": "q", "namespace": namespace},
        "spec": {"hard": {COUNT: str(limit)}},
    }
    await registry.client.create("one", RESOURCE_QUOTAS, quota)


async def _used(registry: Registry, namespace: str = "default") -> str | None:
    quota = await registry.client.get("one", RESOURCE_QUOTAS, "q", namespace)
    assert quota is not None
    used: str | None = ((quota.get("status") or {}).get("used") or {}).get(COUNT)
    return used


async def test_creates_of_one_transaction_are_counted_together() -> None:
    registry = Registry()
    await _quota(registry, 3)
    await registry.client.transaction([registry.config_map("a"), registry.config_map("b")])
    assert await _used(registry) == "2"
    with pytest.raises(Forbidden, match="exceeded quota: q, requested: count/configmaps=1"):
        await registry.client.transaction([registry.config_map("c"), registry.config_map("d")])
    assert registry.names("core/configmaps/one/") == ["a", "b"]
    assert await _used(registry) == "2"
    await registry.client.transaction([registry.config_map("c")])
    assert await _used(registry) == "3"


async def test_quotas_of_several_namespaces() -> None:
    registry = Registry()
    await _quota(registry, 1, "n1")
    await _quota(registry, 1, "n2")
    await registry.client.transaction([registry.config_map("a", n) for n in ("n2", "n1", "n3")])
    assert (await _used(registry, "n1"), await _used(registry, "n2")) == ("1", "1")
    with pytest.raises(Forbidden):
        await registry.client.transaction([registry.config_map("b", n) for n in ("n3", "n2")])
    assert len(registry.store.keys("core/configmaps/one/")) == 3


async def test_the_object_limit_counts_all_creates() -> None:
    registry = Registry()
    await registry.client.transaction([registry.new_cluster("one")])

    def limited(cluster: Object) -> None:
        cluster["metadata"]["annotations"] = {ANNOTATION: "3"}
        cluster["status"] = {"phase": "Ready"}

    change = registry.client.to_update("one", LOGICAL_CLUSTERS, "cluster", limited)
    await registry.client.transaction([change])
    await registry.client.transaction([registry.config_map("a"), registry.config_map("b")])
    with pytest.raises(Forbidden):
        await registry.client.transaction([registry.config_map("c"), registry.config_map("d")])
    assert registry.names("core/configmaps/one/") == ["a", "b"]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (lambda r: r.config_map("Not A Name"), Invalid),
        (lambda r: r.config_map("taken"), AlreadyExists),
        (
            lambda r: Delete(
                r.client.resource("one", CONFIG_MAPS),
                "one",
                "default",
                "taken",
                r.store.get("core/configmaps/one/default/taken")._replace(revision=1),
            ),
            Conflict,
        ),
    ],
    ids=["invalid", "taken", "changed"],
)
async def test_all_or_none(bad: Callable[[Registry], Write], error: type[Exception]) -> None:
    registry = Registry()
    await registry.client.transaction([registry.config_map("other")])
    await registry.client.transaction([registry.config_map("taken")])
    before = registry.store.revision
    with pytest.raises(error):
        await registry.client.transaction([registry.config_map("good"), bad(registry)])
    assert registry.store.revision == before
    assert registry.names("core/configmaps/one/") == ["other", "taken"]


class Noting(NoAdmission):
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def validate(self, request: AdmissionRequest) -> None:
        self.seen.append(f"{request.operation} {request.name}")


async def test_what_goes_to_the_trash_is_admitted_as_a_deletion() -> None:
    admission = Noting()
    registry = Registry(admission)
    await registry.client.transaction([registry.config_map("a")])
    key = "core/configmaps/one/default/a"
    resource = registry.client.resource("one", CONFIG_MAPS)
    await registry.client.transaction([Delete(resource, "one", "default", "a", to_trash=True)])
    assert admission.seen == ["CREATE a", "DELETE a"]
    assert registry.store.get(key) is None
    assert registry.store.get(trash_key(key)) is not None


def test_raw_writes_are_no_api_objects() -> None:
    value = codec.encode({"metadata": {"name": "x"}}, "one")
    Raw((PutKey(trash_key("core/configmaps/one/default/a"), value),))
    with pytest.raises(ValueError, match="is an API object"):
        Raw((PutKey("core/configmaps/one/default/a", value),))


def _export() -> KnownExport:
    return KnownExport("provider", "west", "hash", (), {})


_ACCOUNT = {"metadata": {"name": "default", "namespace": "default"}}
_TEMPLATES: Sequence[tuple[GroupVersionResource, str, str, Callable[[], Object]]] = [
    (NAMESPACES, "", "default", partial(universal_namespace, "default")),
    (SERVICE_ACCOUNTS, "default", "default", lambda: codec.copy(_ACCOUNT)),
    (CONFIG_MAPS, "default", "kube-root-ca.crt", partial(ca_map, "default", "a CA\n")),
    (CLUSTER_ROLE_BINDINGS, "", "workspace-admin", partial(admin_binding, "alice")),
    (
        API_BINDINGS,
        "",
        "west-1",
        lambda: bound_binding(
            "west-1", {"path": "root:west", "name": "west"}, "root:team", _export(), NOW
        ),
    ),
]


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "make"), _TEMPLATES, ids=[t[0].resource for t in _TEMPLATES]
)
async def test_an_instantiated_object_is_what_a_create_stores(
    kind: GroupVersionResource, namespace: str, name: str, make: Callable[[], Object]
) -> None:
    """Byte for byte: the value, the terms by which it is selected, the indexes."""
    from_template, alone = Registry(), Registry()
    client = from_template.client
    template = ObjectTemplate()
    for cluster in ("c1", "c2"):
        copy = TemplateCopy(template, namespace, name, make)
        await client.transaction(
            [from_template.new_cluster(cluster), client.from_template(cluster, kind, copy)]
        )
    assert template.instantiate(("c", "u", NOW)) is not None  # so the second was made from it
    for _ in range(4):
        alone.skip()  # as many uids as were used up before
    obj = make()
    if "status" in obj:  # which only a transaction of the system can bring
        await alone.client.transaction([alone.client.to_create("c2", kind, obj)])
    else:
        await alone.client.create("c2", kind, obj)
    key = client.resource("c2", kind).key("c2", namespace, name)
    made, created = from_template.store.get(key), alone.store.get(key)
    assert made is not None
    assert created is not None
    assert codec.reopen(made.value) == codec.reopen(created.value)
    assert made.terms == created.terms
    resource = client.resource("c2", kind)
    for index in resource.index_entries("c2", codec.decode(made.value)):
        assert key in from_template.store.lookup(index)


async def test_templates_are_only_for_new_clusters() -> None:
    registry = Registry()
    copy = TemplateCopy(ObjectTemplate(), "", "n", partial(universal_namespace, "n"))
    resource = registry.client.resource("one", NAMESPACES)
    with pytest.raises(ValueError, match="one is not made by this transaction"):
        await registry.client.transaction([FromTemplate(resource, "one", copy)])
