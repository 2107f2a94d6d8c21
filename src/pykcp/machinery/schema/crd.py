"""Resource definitions made of CRDs and of APIResourceSchemas.

Both say nearly the same: names, scope, versions with a schema, columns and subresources.
Schemas are shared by content (`SchemaStore`), so that a definition that a thousand
clusters have costs one schema.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from pykcp.caching import BoundedCache
from pykcp.machinery.discovery import version_priority
from pykcp.machinery.schema.crd_text import CrdText, schema_of
from pykcp.machinery.schema.definition import ResourceDefinition, ResourceVersion, Subresource
from pykcp.machinery.schema.kinds import LIST_METADATA, STANDARD_TEXTS
from pykcp.machinery.schema.library import reference
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.machinery.schema.printer import custom_columns
from pykcp.types import Object

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")

KUBERNETES_KIND = "core.kcp.io/kubernetes-kind"
"""The annotation of definitions of Kubernetes' own kinds."""

META = "io.k8s.apimachinery.pkg.apis.meta.v1"

Shared = Callable[[str], Schema]


class SchemaStore:
    """Schemas of custom resources by content, within bounds."""

    def __init__(self, shared: Shared, keep: int = 1024) -> None:
        self.shared = shared
        self._made: BoundedCache[tuple[str, bytes], Schema] = BoundedCache("", keep)

    def schema(self, ref: str, json: Object | None) -> Schema:
        """The schema of a kind, under its component's name, type fields and metadata included."""
        text = orjson.dumps(json, option=orjson.OPT_SORT_KEYS)
        key = (ref, hashlib.blake2b(text, digest_size=16).digest())
        found = self._made.get(key)
        if found is None:
            found = self._made.put(key, self._make(ref, json))
        return found

    def _make(self, ref: str, json: Object | None) -> Schema:
        schema = from_json(json or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
        schema.ref = ref
        metadata = reference(self.shared(f"{META}.ObjectMeta"))
        metadata.description = STANDARD_TEXTS["metadata"]
        restricted = schema.properties.get("metadata")
        if restricted is not None and restricted.properties:
            metadata.properties = restricted.properties
        schema.properties = {
            "apiVersion": _text(""),
            "kind": _text(""),
            **schema.properties,
            "metadata": metadata,
        }
        for name in ("apiVersion", "kind"):
            schema.properties[name].description = STANDARD_TEXTS[name]
        return schema

    def list_schema(self, ref: str, list_kind: str, item: Schema) -> Schema:
        """The schema of a list; small, and so made anew."""
        metadata = reference(self.shared(f"{META}.ListMeta"))
        metadata.description = LIST_METADATA
        items = Schema(
            type="array",
            items=_reference_to(item),
            description=STANDARD_TEXTS["items"],
            list_type="",
        )
        prefix, _, kind = ref.rpartition(".")
        return Schema(
            type="object",
            ref=f"{prefix}.{list_kind}",
            description=f"{list_kind} is a list of {kind} objects.",
            required=("items",),
            properties={
                "apiVersion": _text(STANDARD_TEXTS["apiVersion"]),
                "items": items,
                "kind": _text(STANDARD_TEXTS["kind"]),
                "metadata": metadata,
            },
        )


def _text(description: str) -> Schema:
    return Schema(type="string", description=description)


def _reference_to(component: Schema) -> Schema:
    node = reference(component)
    node.component = component
    return node


_KUBERNETES_GROUPS = frozenset(("", "apps", "batch", "extensions", "policy"))


def component_name(group: str, version: str, kind: str) -> str:
    """`com.example.v1.Widget`: the group backwards; Kubernetes' one-word groups as kcp names them."""
    if group in _KUBERNETES_GROUPS:
        return f"{group or 'core'}.api.k8s.io.{version}.{kind}"
    return ".".join((*reversed(group.split(".")), version, kind))


def definition_from_text(
    text: CrdText, schemas: SchemaStore, read: Callable[[], bytes], *, origin: str = ""
) -> ResourceDefinition:
    """What a stored CustomResourceDefinition defines; `read` reads it again for its schemas."""
    definition = definition_from_crd(
        text.crd,
        schemas,
        origin=origin,
        load=None if text.is_whole else lambda version: schema_of(read(), version),
        weights=text.weights(),
    )
    return replace(definition, source=read)


def definition_from_crd(
    crd: Object,
    schemas: SchemaStore,
    *,
    origin: str = "",
    load: Callable[[str], Object | None] | None = None,
    weights: Mapping[str, int] | None = None,
) -> ResourceDefinition:
    """What a CustomResourceDefinition defines. `origin` is the logical cluster it is in.

    `load` finds the schema of a version where the definition is given without; `weights`: of the
    schemas, by version.
    """
    spec = crd["spec"]
    accepted = crd.get("status", {}).get("acceptedNames") or {}
    # While the names of a bound CRD are not decided, they are present but empty.
    names = {**spec["names"], **(accepted if accepted.get("plural") else {})}

    def schema_of_version(version: Object) -> Object | None:
        if load is not None:
            return load(version["name"])
        return (version.get("schema") or {}).get("openAPIV3Schema")

    definition = _definition(spec, names, schemas, schema_of_version, origin, weights=weights)
    conversion = spec.get("conversion") or {}
    return replace(
        definition,
        stored_versions=tuple((crd.get("status") or {}).get("storedVersions") or ()),
        webhook=conversion if conversion.get("strategy") == "Webhook" else None,
        is_kubernetes=is_kubernetes(crd),
    )


def definition_from_resource_schema(
    schema: Object, schemas: SchemaStore, *, origin: str = "", identity: str = ""
) -> ResourceDefinition:
    """What an APIResourceSchema defines, once it is bound."""
    spec = schema["spec"]
    definition = _definition(
        spec, spec["names"], schemas, lambda v: v.get("schema"), origin, identity
    )
    return replace(definition, is_kubernetes=is_kubernetes(schema))


def is_kubernetes(obj: Object) -> bool:
    """Whether a CRD or a schema says that it defines one of Kubernetes' own kinds."""
    return KUBERNETES_KIND in ((obj.get("metadata") or {}).get("annotations") or ())


def _definition(
    spec: Object,
    names: Object,
    schemas: SchemaStore,
    schema_of: Callable[[Object], Object | None],
    origin: str,
    identity: str = "",
    weights: Mapping[str, int] | None = None,
) -> ResourceDefinition:
    kind = names["kind"]
    weights = weights or {}
    list_kind = names.get("listKind") or f"{kind}List"
    group = spec["group"]
    versions = sorted(spec["versions"], key=lambda v: version_priority(v["name"]))
    stored = next((v["name"] for v in versions if v.get("storage")), versions[0]["name"])
    current = (v["name"] for v in versions if v.get("served") and not v.get("deprecated"))
    newest = next(current, "")
    return ResourceDefinition(
        group=group,
        plural=names["plural"],
        singular=names.get("singular") or kind.lower(),
        kind=kind,
        list_kind=list_kind,
        namespaced=spec["scope"] == "Namespaced",
        all_versions=tuple(
            _version(
                spec, kind, list_kind, v, schemas, schema_of, newest, weights.get(v["name"], 0)
            )
            for v in versions
        ),
        verbs=VERBS,
        storage_version=stored,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        native=False,
        origin=origin,
        identity=identity,
        shared=schemas.shared,
    )


def _version(
    spec: Object,
    kind: str,
    list_kind: str,
    version: Object,
    schemas: SchemaStore,
    schema_of: Callable[[Object], Object | None],
    newest: str,
    weight: int,
) -> ResourceVersion:
    """`newest`: the first served version that is not deprecated; "" if there is none."""
    name, group = version["name"], spec["group"]
    ref = component_name(group, name, kind)

    def load() -> Schema:
        return schemas.schema(ref, schema_of(version))

    subresources = version.get("subresources") or {}
    return ResourceVersion.lazy(
        name,
        load,
        lambda: custom_columns(version.get("additionalPrinterColumns")),
        load_list_schema=lambda: schemas.list_schema(ref, list_kind, load()),
        subresources=_subresources(kind, subresources),
        served=bool(version.get("served", True)),
        deprecated=bool(version.get("deprecated")),
        deprecation_warning=_warning(spec, kind, version, newest),
        selectable_fields=frozenset(
            f["jsonPath"].removeprefix(".") for f in version.get("selectableFields") or ()
        ),
        scale=subresources.get("scale"),
        weight=weight,
    )


def _subresources(kind: str, given: dict[str, Any]) -> tuple[Subresource, ...]:
    out = []
    if given.get("status") is not None:
        out.append(Subresource("status", kind, STATUS_VERBS))
    if given.get("scale") is not None:
        out.append(Subresource("scale", "Scale", STATUS_VERBS, "autoscaling", "v1"))
    return tuple(out)


def _warning(spec: Object, kind: str, version: Object, newest: str) -> str:
    """The deprecation warning of a version, with the recommended newer version, if there is one."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, name = spec["group"], version["name"]
    text = f"{group}/{name} {kind} is deprecated"
    if not newest or version_priority(newest) >= version_priority(name):
        return text
    return f"{text}; use {group}/{newest} {kind}"
