"""Components: every type that a document mentions, directly or through another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pykcp.machinery.openapi.operations import DELETE_OPTIONS, META, WATCH_EVENT
from pykcp.machinery.schema.definition import ResourceDefinition
from pykcp.machinery.schema.model import Schema
from pykcp.types import Object

GVK = "x-kubernetes-group-version-kind"


class Types:
    """Finds types by component name: those of the definitions first, then the shared ones."""

    def __init__(self, definitions: Sequence[ResourceDefinition]) -> None:
        self._definitions = definitions
        self._found: dict[str, Schema] = {}
        self.kinds: dict[str, list[Object]] = _shared_kinds(definitions)
        self.selectable: dict[str, list[Object]] = {}

    def add(self, definition: ResourceDefinition, version: str) -> None:
        """Make the kind of a definition, and its list, known."""
        for schema, kind in (
            (definition.schema(version), definition.kind),
            (definition.list_schema(version), definition.list_kind),
        ):
            if schema is None:
                continue
            self._found[schema.ref] = schema
            gvk = {"group": definition.group, "version": version, "kind": kind}
            self.kinds.setdefault(schema.ref, [gvk])
            fields = definition.version(version).selectable_fields
            if fields and not definition.native:
                self.selectable[schema.ref] = [{"fieldPath": f} for f in sorted(fields)]

    def find(self, name: str) -> Schema:
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._shared(name)
        return found

    def _shared(self, name: str) -> Schema:
        for definition in self._definitions:
            if definition.shared is not None:
                return definition.shared(name)
        raise KeyError(f"nobody knows the type {name!r}")

    def closure(self, names: Iterable[str]) -> dict[str, Schema]:
        """The types of these names and all that they refer to, sorted by name."""
        reached: dict[str, Schema] = {}
        waiting = [self.find(name) for name in names if name]
        while waiting:
            component = waiting.pop()
            if component.ref not in reached:
                reached[component.ref] = component
                _collect(component, waiting, root=True)
        return dict(sorted(reached.items()))

    def extensions(self, name: str) -> Object:
        """What is said of a component beside its schema."""
        out: Object = {}
        if name in self.kinds:
            out[GVK] = self.kinds[name]
        if name in self.selectable:
            out["x-kubernetes-selectable-fields"] = self.selectable[name]
        return out


def _collect(schema: Schema, found: list[Schema], *, root: bool = False) -> None:
    if schema.ref and not root:
        found.append(schema.component or schema)
        return
    for child in schema.properties.values():
        _collect(child, found)
    for part in (schema.items, schema.additional, schema.not_):
        if part is not None:
            _collect(part, found)


_SHARED_KINDS = ("Status", "APIGroup", "APIGroupList", "APIResourceList", "APIVersions")


_SUBRESOURCE_KINDS = (
    ("", "Binding"),
    ("authentication.k8s.io", "TokenRequest"),
    ("autoscaling", "Scale"),
    ("policy", "Eviction"),
)


def _shared_kinds(definitions: Sequence[ResourceDefinition]) -> dict[str, list[Object]]:
    """Kinds that belong to the core group, and the two that belong to every group."""
    kinds: dict[str, list[Object]] = {
        f"{META}.{kind}": [{"group": "", "version": "v1", "kind": kind}] for kind in _SHARED_KINDS
    }
    versions = sorted({(d.group, v) for d in definitions for v in d.versions} | {("", "v1")})
    for name in (DELETE_OPTIONS, WATCH_EVENT):
        kind = name.rpartition(".")[2]
        kinds[name] = [{"group": g, "version": v, "kind": kind} for g, v in versions]
    for group, kind in _SUBRESOURCE_KINDS:
        name = (group or "core").removesuffix(".k8s.io")
        kinds[f"io.k8s.api.{name}.v1.{kind}"] = [{"group": group, "version": "v1", "kind": kind}]
    return kinds
