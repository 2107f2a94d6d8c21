"""Kinds of Kubernetes itself: typed decoding and hand-written rules."""

from __future__ import annotations

import re

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kube.validation.rules import Facts, KindRules, before_create, before_update
from pykcp.machinery.patch.refusals import unexpected
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.schema.decode import DecodeError, decoder_for
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import BadRequest, go_quote
from pykcp.registry.catalog.kinds import Verdict
from pykcp.registry.catalog.whole_numbers import whole_numbers
from pykcp.registry.codec import strip_cluster
from pykcp.registry.ownership import OwnedKind, relabelled
from pykcp.types import Object

_TYPE = frozenset(("kind", "apiVersion"))
_FRACTION = re.compile(r"cannot unmarshal number .*\..* into Go .* of type (u?int\d*)$").search


class NativeKind(OwnedKind):
    """One built-in kind at one version; its schema is read when it is first written to."""

    def __init__(self, definition: ResourceDefinition, version: str, rules: KindRules) -> None:
        super().__init__(definition, version, relabelled)
        self._definition = definition
        self._version = version
        self._api_version = definition.api_version(version)
        self._rules = rules
        self._schema: Schema | None = None
        self._lists: tuple[tuple[str, ...], ...] | None = None
        """Lists that storage gives back as null when they are empty."""
        self.create_on_update = rules.create_on_update
        self.unconditional_update = rules.unconditional_update
        self.selectable = rules.selectable

    def decode(self, obj: Object, problems: list[str], raw: bytes | None = None) -> Object:
        kind, version = self._definition.kind, self._version
        decoded = decode_native(self._typed(), kind, version, obj, problems, raw)
        if len(decoded.keys() & _TYPE) < len(_TYPE):  # as the URL says: it need not be repeated
            decoded["kind"], decoded["apiVersion"] = kind, self._api_version
        strip_cluster(decoded)
        self._rules.default(decoded)
        return decoded

    def decode_applied(self, obj: Object) -> Object:
        try:
            return self.decode(whole_numbers(obj), [])
        except BadRequest as error:
            fraction = _FRACTION(error.message)
            if fraction is None:
                raise
            what = f"{self._api_version}, Kind={self._definition.kind}"
            if "/" not in self._api_version:
                what = "/" + what
            metadata = obj.get("metadata") or {}
            place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
            raise unexpected(
                f"failed to convert new object ({place}; {what}) to proper version: unable to "
                f"convert unstructured object to {what}: cannot convert float64 to {fraction[1]}"
            ) from error

    def before_create(self, obj: Object, facts: Facts) -> Verdict:
        return before_create(self._rules, obj, facts)

    def before_update(self, new: Object, old: Object, subresource: str, facts: Facts) -> Verdict:
        rules = self._rules.subresources[subresource] if subresource else self._rules
        return before_update(rules, new, old, facts)

    def settle(self, obj: Object) -> None:
        """Empty lists become null: upstream's protobuf does not distinguish them."""
        lists = self._lists
        if lists is None:
            lists = self._lists = _lists_always_written(self._typed()) if self._is_packed() else ()
        for path in lists:
            parent = obj
            for name in path[:-1]:
                parent = parent.get(name) or {}
            if parent.get(path[-1]) == []:
                parent[path[-1]] = None

    def _typed(self) -> Schema:
        schema = self._schema
        if schema is None:
            schema = self._schema = self._definition.schema(self._version)
        return schema

    def _is_packed(self) -> bool:
        """Whether upstream stores the kind as protobuf: all but definitions, which are JSON."""
        return self._definition.group != CUSTOM_RESOURCE_DEFINITIONS.group


def _lists_always_written(schema: Schema) -> tuple[tuple[str, ...], ...]:
    """Paths of lists that are written even if they are empty, in structs within structs.

    Those in lists have rules of their own: none of them may be empty.
    """
    out: list[tuple[str, ...]] = []
    for name, child in schema.properties.items():
        if child.type == "array" and child.presence == "always":
            out.append((name,))
        elif child.type == "object" and child.additional is None and name != "metadata":
            out += ((name, *path) for path in _lists_always_written(child))
    return tuple(out)


def decode_native(
    schema: Schema, kind: str, version: str, obj: Object, problems: list[str], raw: bytes | None
) -> Object:
    """A typed object; BadRequest in Go's words if a value has the wrong type."""
    try:
        return decoder_for(schema).decode(obj, problems, raw)
    except DecodeError as error:
        raise BadRequest(
            f"{kind} in version {go_quote(version)} cannot be handled as a {kind}: {error}"
        ) from error
