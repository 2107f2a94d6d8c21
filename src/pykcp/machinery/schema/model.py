"""One schema model for every kind: built-in, kcp's own, CRD and bound.

A `Schema` is a node of a structural schema. Built-in kinds come from the text
files under `apis/`, CRDs from their OpenAPI v3 JSON; everything that looks at
objects by their type (decoding, pruning, defaulting, validation, strategic
merge, server-side apply, OpenAPI publishing, `kubectl explain`) reads this one
model. Nodes are built once, shared by content and never changed afterwards;
they may be cyclic (JSONSchemaProps refers to itself).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class Schema:
    """A node of a structural schema; field names follow OpenAPI v3."""

    type: str = ""
    """object, array, string, integer, number, boolean, or "" for any."""
    format: str = ""
    """int32, int64, double, byte, date-time, micro-time, quantity, int-or-string, …"""
    description: str = ""
    ref: str = ""
    """The component's name when published (io.k8s.api.core.v1.ConfigMap), "" if inline."""

    component: Schema | None = None
    """For a node that stands for a component: the component itself."""

    properties: dict[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    additional: Schema | None = None
    """additionalProperties: the schema of a map's values; None: not a map."""
    additional_allowed: bool | None = None
    """additionalProperties written as true or false; None: not written that way."""
    items: Schema | None = None

    default: Any = None
    has_default: bool = False
    nullable: bool = False
    enum: tuple[Any, ...] = ()

    # Kubernetes' extensions
    preserve_unknown: bool = False
    embedded_resource: bool = False
    int_or_string: bool = False
    list_type: str = ""
    """"" (atomic for built-ins and CRDs alike), atomic, set or map."""
    list_keys: tuple[str, ...] = ()
    map_type: str = ""
    """"" (granular), granular or atomic; also for objects with properties."""
    patch_strategy: str = ""
    """Strategic merge: "", merge, replace, retainKeys, or "merge,retainKeys"."""
    patch_merge_key: str = ""

    # value validations, used by CRDs and kcp's own kinds
    pattern: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool = False
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: tuple[Schema, ...] = ()
    any_of: tuple[Schema, ...] = ()
    one_of: tuple[Schema, ...] = ()
    not_: Schema | None = None
    rules: tuple[dict[str, Any], ...] = ()
    """x-kubernetes-validations, as written."""
    extensions: dict[str, Any] = field(default_factory=dict)
    """What else is published with the node (externalDocs, title, example, x-…)."""

    # how Go's structs carry the value; only built-in kinds have these
    go_type: str = ""
    """v1.ObjectMeta, []string, …: what decoding errors name. "": not typed in Go."""
    go_path: str = ""
    """Embedded structs that the field sits in, as errors name them: `TypeMeta.`."""
    codec: str = ""
    """Set for values with a decoder of their own: time, micro-time, quantity, raw, …"""
    inner: Schema | None = None
    """For codecs that accept a struct or something else: the struct."""
    pointer: bool = False
    """Unset differs from empty."""
    presence: str = ""
    """When a value is written: "" (not if empty), always, or omitzero (not if a zero struct)."""

    @property
    def is_map(self) -> bool:
        """Whether values are reached by arbitrary keys rather than by named fields."""
        return self.additional is not None
