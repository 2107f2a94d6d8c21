"""Applies the objects of workloads where they are not what they should be, and says how they are."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pykcp.caching import BoundedCache
from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import StatusError
from pykcp.programs.operator.cluster.reading import NamespaceReader
from pykcp.programs.operator.compiled import DEFAULT_REPLICAS, CompiledWorkload
from pykcp.programs.operator.configuration.status import ReplicaCounts
from pykcp.programs.operator.drivers.kubernetes.comparing import appliable, contains
from pykcp.programs.operator.drivers.kubernetes.driver import (
    APPLIED,
    DEPLOYMENTS,
    HOST,
    KubernetesDriver,
    deployment_state,
)
from pykcp.programs.operator.drivers.kubernetes.objects import workload_objects
from pykcp.programs.operator.drivers.kubernetes.pods import pods_problem
from pykcp.types import Object

_log = logging.getLogger(__name__)
PODS = GroupVersionResource("", "v1", "pods")
_MOST_OBJECTS = 30_000

_Applied = tuple[str, str]
"""Revision of the workload, and the resource version that the server made of it."""


class WorkloadRunner:
    """`run` workloads; `states` says how far they are."""

    def __init__(self, client: Client, reader: NamespaceReader) -> None:
        self._client, self._reader = client, reader
        self._driver = KubernetesDriver(client)
        self._applied = BoundedCache[tuple[str, str, str], _Applied](
            "operator-applied", _MOST_OBJECTS
        )
        """By namespace, kind and name."""

    async def run(self, workloads: Iterable[CompiledWorkload]) -> dict[str, StatusError]:
        """Returns what the server refused, by workload: the others run all the same."""
        refused = {}
        for workload in workloads:
            try:
                await self._run(workload)
            except StatusError as error:
                _log.warning("%s/%s: %s", workload.namespace, workload.name, error)
                refused[workload.name] = error
        return refused

    async def _run(self, workload: CompiledWorkload) -> None:
        deployment = self._reader.get(DEPLOYMENTS, workload.namespace, workload.name) or {}
        replicas = (deployment.get("spec") or {}).get("replicas")
        for wanted in workload_objects(workload, replicas):
            kind, name = wanted["kind"], wanted["metadata"]["name"]
            live = self._reader.get(APPLIED[kind], workload.namespace, name)
            obj = appliable(wanted, live)
            key = (workload.namespace, kind, name)
            if self._is_right(key, workload.revision, obj, live):
                continue
            made = await self._driver.apply(obj)
            self._applied.put(key, (workload.revision, _version(made)))

    def _is_right(
        self, key: tuple[str, str, str], revision: str, wanted: Object, live: Object | None
    ) -> bool:
        """Whether it is what this process has applied, and unchanged since where it matters."""
        applied = self._applied.get(key)
        if live is None or applied is None or applied[0] != revision:
            return False
        return applied[1] == _version(live) or contains(live, wanted)

    async def states(
        self,
        namespace: str,
        workloads: Iterable[CompiledWorkload],
        refused: Mapping[str, Exception],
    ) -> dict[str, ReplicaCounts]:
        """By name."""
        found = {}
        for one in workloads:
            live = self._reader.get(DEPLOYMENTS, namespace, one.name)
            wanted = DEFAULT_REPLICAS if one.replicas is None else one.replicas
            state = deployment_state(live, wanted)
            if one.name in refused:
                state = replace(state, message=str(refused[one.name]), is_refused=True)
            elif state.exists and not state.is_available:
                problem = await self._why(one)
                state = replace(state, message=problem or state.message)
            found[one.name] = state
        return found

    async def _why(self, workload: CompiledWorkload) -> str:
        """What the pods say; they are not followed, since those of a whole cluster are many."""
        labels = ",".join(f"{key}={value}" for key, value in workload.labels.items())
        try:
            pods = await self._client.list(HOST, PODS, workload.namespace, labels=labels)
        except (StatusError, SendFailed) as error:
            _log.debug("pods of %s/%s: %s", workload.namespace, workload.name, error)
            return ""
        return pods_problem(pods)


def _version(obj: Object) -> str:
    return str(obj["metadata"].get("resourceVersion") or "")
