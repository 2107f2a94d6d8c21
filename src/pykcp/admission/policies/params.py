"""The parameters with which a policy is evaluated for a binding."""

from __future__ import annotations

from pykcp.admission.lookups import AdmissionLookups
from pykcp.admission.policies.policy import Binding, BoundPolicy, ParamKind
from pykcp.admission.subject import Subject
from pykcp.machinery.labels import SelectorError
from pykcp.registry.resource import Resource
from pykcp.types import Object

_NONE: list[Object | None] = [None]


class Misconfigured(Exception):
    """A policy or a binding cannot work as it is."""


def param_resource(
    kind: ParamKind | None, cluster: str, lookups: AdmissionLookups
) -> Resource | None:
    """The resource that a policy's parameters are of; None if it has none.

    `cluster`: where the policy is, which need not be where the object is.
    """
    if kind is None:
        return None
    found = lookups.kind(cluster, kind.api_version, kind.kind)
    if found is None:
        raise Misconfigured(f"failed to find resource referenced by paramKind: '{kind.text}'")
    return found


async def collect_params(
    bound: BoundPolicy,
    binding: Binding,
    resource: Resource | None,
    subject: Subject,
    lookups: AdmissionLookups,
) -> list[Object | None]:
    """One evaluation is made for each; [None] where there are no parameters."""
    reference = binding.param_ref
    if bound.policy.param_kind is None or resource is None or reference is None:
        return _NONE
    namespace = _namespace(reference, resource, subject)
    found = await _find(reference, resource, namespace, bound.cluster, lookups)
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise Misconfigured(
            "no params found for policy binding with `Deny` parameterNotFoundAction"
        )
    return list(found)


def _namespace(reference: Object, resource: Resource, subject: Subject) -> str:
    given: str = reference.get("namespace") or ""
    if not resource.namespaced:
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


async def _find(
    reference: Object,
    resource: Resource,
    namespace: str,
    cluster: str,
    lookups: AdmissionLookups,
) -> list[Object]:
    name, selector = reference.get("name"), reference.get("selector")
    if name:
        if selector is not None:
            raise Misconfigured("paramRef.name and paramRef.selector are mutually exclusive")
        one = await lookups.get(cluster, resource, namespace, name)
        return [] if one is None else [one]
    if selector is None:
        raise Misconfigured("one of name or selector must be provided")
    try:
        return await lookups.select(cluster, resource, namespace, selector)
    except SelectorError as error:
        raise Misconfigured(str(error)) from error
