"""The configuration stage as a whole: everything of one namespace at once.

It may be run again at any time: what is there and right is kept. Certificates are issued and
renewed on the way, so it takes a while the first time; run it in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from pykcp.programs.operator import compiled
from pykcp.programs.operator.compiled import START_ORDER, CompiledWorkload
from pykcp.programs.operator.configuration import certificates, trust
from pykcp.programs.operator.configuration.caches import cache_workload, put_cache_trust
from pykcp.programs.operator.configuration.conflicts import ObjectId
from pykcp.programs.operator.configuration.kubeconfigs import configure_kubeconfig
from pykcp.programs.operator.configuration.proxies import (
    front_proxy_workload,
    proxy_address,
    proxy_place,
    root_proxy_place,
    root_proxy_workload,
)
from pykcp.programs.operator.configuration.shards import (
    put_known_shards,
    root_shard_workload,
    shard_workload,
)
from pykcp.programs.operator.configuration.virtual_workspaces import (
    target_of,
    virtual_place,
    virtual_workload,
)
from pykcp.programs.operator.configuration.world import (
    AVAILABLE,
    ConfiguredObject,
    NotConfigurable,
    World,
    name_of,
    shard_url,
)
from pykcp.programs.operator.names import OWNER_LABELS
from pykcp.programs.operator.pki.engine import (
    CertificateEngine,
    IssuedCertificate,
    IssuerMissing,
)
from pykcp.programs.operator.pki.issuance import Issuance, NotIssuedYet
from pykcp.programs.operator.pki.requests import LEAF_SECONDS, duration_seconds
from pykcp.programs.operator.platform import Platform
from pykcp.programs.operator.records import ConfigRecord, Records, RecordTaken
from pykcp.types import Object


@dataclass
class Configuration:
    """What the objects of a namespace ask for."""

    namespace: str
    records: Records
    workloads: list[CompiledWorkload] = field(default_factory=list)
    """In the order in which to start them."""
    made: dict[ObjectId, ConfiguredObject] = field(default_factory=dict)
    problems: dict[ObjectId, NotConfigurable] = field(default_factory=dict)
    """Objects that cannot be configured now, and why."""
    next_time: float = float("inf")
    """When to run the stage again although nothing has changed."""

    def unneeded(self, *, of_deleted: bool) -> Iterator[ConfigRecord]:
        """Secrets and ConfigMaps that were made for an object which no longer needs them.

        Of an object that cannot be configured now everything is kept: its keys are needed again
        when the reason is gone. `of_deleted`: also those of objects that do not exist any more;
        Kubernetes deletes them by itself.
        """
        known = self.made.keys() | self.problems.keys()
        for record in list(self.records):
            owner = record.owner
            if owner is None or (record.kind, record.name) in self.records.wanted:
                continue
            key = (owner.kind, owner.name)
            is_ours = record.labels.get(OWNER_LABELS[owner.kind]) == owner.name
            is_configured = key in self.made and key not in self.problems
            if is_ours and (is_configured or (of_deleted and key not in known)):
                yield record

    def workloads_of(self, kind: str, name: str) -> tuple[CompiledWorkload, ...]:
        made = self.made.get((kind, name))
        return made.workloads if made is not None else ()


def configure(
    namespace: str,
    objects: Iterable[Object],
    records: Records,
    platform: Platform,
    now: float,
    issuance: Issuance | None = None,
) -> Configuration:
    """Configure all objects of a namespace, which must have their defaults (`read_manifest`).

    New and changed Secrets and ConfigMaps are in `records.changed`. Certificates are issued by
    our own engine unless another `issuance` is given.
    """
    objects = list(objects)
    engine = CertificateEngine(records, now, platform.settle_seconds)
    engine.longest_seconds = longest_validity(objects)
    world = World.of(namespace, objects, records, platform, issuance or engine)
    stage = _Stage(world, Configuration(namespace, records))
    stage.run()
    stage.out.next_time = engine.next_time
    return stage.out


def longest_validity(objects: Iterable[Object]) -> float:
    """The longest lifetime of a certificate that users may hold, in seconds."""
    given = [o["spec"]["validity"] for o in objects if o["kind"] == "Kubeconfig"]
    return max([LEAF_SECONDS, *map(duration_seconds, given)])


class _Stage:
    def __init__(self, world: World, out: Configuration) -> None:
        self._world, self.out = world, out
        self._issued: dict[ObjectId, list[IssuedCertificate]] = {}
        self._runs: dict[str, ObjectId] = {}
        """Which object each workload belongs to."""

    def run(self) -> None:
        self.out.problems.update(self._world.refused)
        self._certify()
        for kind, make in (
            ("CacheServer", self._cache),
            ("RootShard", self._root),
            ("Shard", self._shard),
            ("VirtualWorkspace", self._virtual),
            ("FrontProxy", self._proxy),
            ("Kubeconfig", lambda obj: configure_kubeconfig(self._world, obj)),
        ):
            for obj in self._world.all(kind):
                self._attempt(obj, lambda obj=obj, make=make: self._finish(obj, make(obj)))  # type: ignore[misc]
        workloads = [one for made in self.out.made.values() for one in made.workloads]
        workloads.sort(key=lambda one: (START_ORDER.index(one.component), one.name))
        self.out.workloads = workloads

    def _attempt(self, obj: Object, step: Callable[[], None]) -> None:
        key = (obj["kind"], name_of(obj))
        if key in self.out.problems:
            return
        try:
            step()
        except NotConfigurable as error:
            self.out.problems[key] = error
        except RecordTaken as error:
            self.out.problems[key] = NotConfigurable(AVAILABLE, "NameConflict", str(error))
        except IssuerMissing as error:
            self.out.problems[key] = NotConfigurable(AVAILABLE, "IssuerMissing", str(error))
        except NotIssuedYet as error:
            self.out.problems[key] = NotConfigurable(AVAILABLE, "CertificatesPending", str(error))

    def _finish(self, obj: Object, made: ConfiguredObject) -> None:
        key = (obj["kind"], name_of(obj))
        for workload in made.workloads:
            kind, name = self._runs.setdefault(workload.name, key)
            if (kind, name) != key:
                why = f'the workload "{workload.name}" belongs to {kind} "{name}"'
                raise NotConfigurable(AVAILABLE, "NameConflict", why)
        issued = (*self._issued.get(key, ()), *made.certificates)
        self.out.made[key] = ConfiguredObject(made.workloads, issued, made.addresses)

    # --- certificates first: workloads are given those of each other ----------------

    def _certify(self) -> None:
        world = self._world
        for cache in world.all("CacheServer"):
            self._attempt(cache, lambda cache=cache: self._certify_cache(cache))  # type: ignore[misc]
        for root in world.all("RootShard"):
            self._attempt(root, lambda root=root: self._certify_root(root))  # type: ignore[misc]
        for shard in world.all("Shard"):
            self._attempt(shard, lambda shard=shard: self._certify_shard(shard))  # type: ignore[misc]
        for root in world.all("RootShard"):
            self._attempt(root, lambda root=root: self._publish(root))  # type: ignore[misc]

    def _certify_cache(self, cache: Object) -> None:
        self._keep(cache, certificates.cache_certificates(self._world, cache))
        put_cache_trust(self._world, cache)

    def _certify_root(self, root: Object) -> None:
        world = self._world
        issued = certificates.root_certificates(world, root)
        if world.platform.has_internal_proxy:
            place = root_proxy_place(world, root)
            issued += certificates.root_proxy_certificates(world, root, place)
        self._keep(root, issued)
        trust.put_trust(world, root)

    def _certify_shard(self, shard: Object) -> None:
        root = self._root_of(shard)
        self._keep(shard, certificates.shard_certificates(self._world, shard, root))

    def _publish(self, root: Object) -> None:
        trust.put_account_keys(self._world, root)
        put_known_shards(self._world, root)

    def _keep(self, obj: Object, issued: list[IssuedCertificate]) -> None:
        self._issued[(obj["kind"], name_of(obj))] = issued

    def _root_of(self, obj: Object) -> Object:
        """The RootShard, if it is configured itself."""
        root = self._world.root_of(obj)
        problem = self.out.problems.get(("RootShard", name_of(root)))
        if problem is not None and ("RootShard", name_of(root)) not in self._issued:
            why = f'RootShard "{name_of(root)}" has no certificates: {problem.message}'
            raise NotConfigurable(AVAILABLE, "RootShardNotReady", why)
        return root

    # --- workloads ----------------------------------------------------------------

    def _cache(self, cache: Object) -> ConfiguredObject:
        place = certificates.cache_place(self._world, cache)
        workload = cache_workload(self._world, cache)
        return ConfiguredObject((workload,), (), (self._world.platform.reached(place).url,))

    def _root(self, root: Object) -> ConfiguredObject:
        world = self._world
        workloads = [root_shard_workload(world, root)]
        if world.platform.has_internal_proxy:
            workloads.append(root_proxy_workload(world, root))
        return ConfiguredObject(
            tuple(workloads), (), (shard_url(world, root, compiled.ROOT_SHARD),)
        )

    def _shard(self, shard: Object) -> ConfiguredObject:
        workload = shard_workload(self._world, shard, self._root_of(shard))
        return ConfiguredObject((workload,), (), (shard_url(self._world, shard, compiled.SHARD),))

    def _proxy(self, proxy: Object) -> ConfiguredObject:
        world, root = self._world, self._root_of(proxy)
        place = proxy_place(world, proxy, root)
        self._keep(proxy, certificates.proxy_certificates(world, proxy, root, place))
        workload = front_proxy_workload(world, proxy, root)
        return ConfiguredObject((workload,), (), (proxy_address(proxy, root).url,))

    def _virtual(self, server: Object) -> ConfiguredObject:
        world = self._world
        _, root, _ = target_of(world, server)
        place = virtual_place(world, server)
        self._keep(server, certificates.virtual_certificates(world, server, root, place))
        workload = virtual_workload(world, server)
        return ConfiguredObject((workload,), (), (world.platform.reached(place).url,))
