"""The parameters with which a policy is evaluated for a binding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pykcp.admission.lookups import AdmissionLookups
from pykcp.admission.policies.policy import Binding, BoundPolicy, ParamKind
from pykcp.admission.subject import Subject
from pykcp.machinery.labels import SelectorError
from pykcp.registry.resource import Resource
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.admission.policies.remote_params import RemoteParams

_NONE: list[Object | None] = [None]


class Misconfigured(Exception):
    """A policy or a binding cannot work as it is."""


class ParamSource(Protocol):
    """Objects of the kind of a policy's parameters, in the logical cluster of the policy."""

    @property
    def namespaced(self) -> bool: ...

    async def get(self, namespace: str, name: str) -> list[Object]: ...

    async def select(self, namespace: str, selector: Object) -> list[Object]:
        """Of one namespace or of all. Raises SelectorError."""


@dataclass(frozen=True, slots=True)
class StoredParams:
    """Those of this shard."""

    lookups: AdmissionLookups
    cluster: str
    resource: Resource

    @property
    def namespaced(self) -> bool:
        return self.resource.namespaced

    async def get(self, namespace: str, name: str) -> list[Object]:
        found = await self.lookups.get(self.cluster, self.resource, namespace, name)
        return [] if found is None else [found]

    async def select(self, namespace: str, selector: Object) -> list[Object]:
        return await self.lookups.select(self.cluster, self.resource, namespace, selector)


async def param_source(
    kind: ParamKind | None, cluster: str, lookups: AdmissionLookups, remote: RemoteParams | None
) -> ParamSource | None:
    """Where a policy's parameters are; None if it has none.

    `cluster`: where the policy is, which need not be where the object is. `remote`: those of
    other shards.
    """
    if kind is None:
        return None
    found: ParamSource | None = None
    shard = remote.shard_of(cluster) if remote is not None else ""
    if remote is not None and shard:
        found = await remote.source(shard, cluster, kind)
    else:
        resource = lookups.kind(cluster, kind.api_version, kind.kind)
        if resource is not None:
            found = StoredParams(lookups, cluster, resource)
    if found is None:
        raise Misconfigured(f"failed to find resource referenced by paramKind: '{kind.text}'")
    return found


async def collect_params(
    bound: BoundPolicy, binding: Binding, source: ParamSource | None, subject: Subject
) -> list[Object | None]:
    """One evaluation is made for each; [None] where there are no parameters."""
    reference = binding.param_ref
    if bound.policy.param_kind is None or source is None or reference is None:
        return _NONE
    namespace = _namespace(reference, source, subject)
    found = await _find(reference, source, namespace)
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise Misconfigured(
            "no params found for policy binding with `Deny` parameterNotFoundAction"
        )
    return list(found)


def _namespace(reference: Object, source: ParamSource, subject: Subject) -> str:
    given: str = reference.get("namespace") or ""
    if not source.namespaced:
        if given:
            raise Misconfigured(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            )
        return ""
    if not given and not subject.namespace:
        raise Misconfigured(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return given or subject.namespace


async def _find(reference: Object, source: ParamSource, namespace: str) -> list[Object]:
    name, selector = reference.get("name"), reference.get("selector")
    if name:
        if selector is not None:
            raise Misconfigured("paramRef.name and paramRef.selector are mutually exclusive")
        return await source.get(namespace, name)
    if selector is None:
        raise Misconfigured("one of name or selector must be provided")
    try:
        return await source.select(namespace, selector)
    except SelectorError as error:
        raise Misconfigured(str(error)) from error
