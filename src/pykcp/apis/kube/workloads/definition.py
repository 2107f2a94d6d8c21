"""What Kubernetes' kinds for workloads have beside what their schema says: columns, subresources."""

from __future__ import annotations

from dataclasses import replace

from pykcp.machinery.schema.definition import (
    Column,
    ResourceDefinition,
    ResourceVersion,
    Subresource,
)

_CHANGED = ("get", "patch", "update")
_CONNECTED = ("create", "get")
_PROXIED = ("create", "delete", "get", "patch", "update")
_POD: tuple[Subresource, ...] = (
    Subresource("attach", "PodAttachOptions", _CONNECTED),
    Subresource("binding", "Binding", ("create",)),
    Subresource("ephemeralcontainers", "Pod", _CHANGED),
    Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    Subresource("exec", "PodExecOptions", _CONNECTED),
    Subresource("log", "Pod", ("get",)),
    Subresource("portforward", "PodPortForwardOptions", _CONNECTED),
    Subresource("proxy", "PodProxyOptions", _PROXIED),
    Subresource("resize", "Pod", _CHANGED),
)
_CORE: dict[str, tuple[Subresource, ...]] = {
    "nodes": (Subresource("proxy", "NodeProxyOptions", _PROXIED),),
    "pods": _POD,
    "services": (Subresource("proxy", "ServiceProxyOptions", _PROXIED),),
}
_SELECTABLE: dict[tuple[str, str], frozenset[str]] = {
    ("apps", "replicasets"): frozenset(),
    ("batch", "jobs"): frozenset(("status.successful",)),
    ("resource.k8s.io", "resourceslices"): frozenset(("spec.driver", "spec.nodeName")),
}
"""Fields that field selectors may name, where their CustomResourceDefinition cannot say so."""
SELECTED_FROM = {"status.successful": "status.succeeded"}
"""Where values of fields come from that selectors call otherwise."""
SELECTED_IF_UNSET = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.successful": "0",
}
"""Values of fields that are not text and not set; other fields are empty."""
STREAMED = frozenset(("attach", "exec", "log", "portforward"))
"""Subresources that a kubelet answers."""


def completed(definition: ResourceDefinition) -> ResourceDefinition:
    """A kind with its columns, its verbs in order, and with the subresources of the core group."""
    more = () if definition.group else _CORE.get(definition.plural, ())
    return replace(
        definition,
        verbs=tuple(
            sorted(definition.verbs)
        ),  # those of custom resources have an order of their own
        all_versions=tuple(
            _completed(definition, version, more) for version in definition.all_versions
        ),
    )


def _completed(
    definition: ResourceDefinition, version: ResourceVersion, more: tuple[Subresource, ...]
) -> ResourceVersion:
    known = {subresource.name for subresource in version.subresources}
    added = tuple(subresource for subresource in more if subresource.name not in known)

    def columns() -> tuple[Column, ...]:
        from pykcp.apis.kube.workloads.columns import columns_of

        return columns_of(definition.group, definition.plural) or version.load_columns()

    return replace(
        version,
        load_columns=columns,
        subresources=(*version.subresources, *added),
        selectable_fields=_SELECTABLE.get(
            (definition.group, definition.plural), version.selectable_fields
        ),
    )
