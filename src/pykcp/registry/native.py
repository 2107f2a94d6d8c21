"""Kinds of Kubernetes itself: typed decoding and hand-written rules."""

from __future__ import annotations

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kube.validation.rules import Facts, KindRules, before_create, before_update
from pykcp.machinery.schema.decode import DecodeError, decoder_for
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import BadRequest, go_quote
from pykcp.registry.codec import strip_cluster
from pykcp.registry.kinds import Verdict
from pykcp.registry.ownership import OwnedKind, relabelled
from pykcp.types import Object


class NativeKind(OwnedKind):
    """One built-in kind at one version; its schema is read when it is first written to."""

    def __init__(self, definition: ResourceDefinition, version: str, rules: KindRules) -> None:
        super().__init__(definition, version, relabelled)
        self._definition = definition
        self._version = version
        self._rules = rules
        self._schema: Schema | None = None
        self.create_on_update = rules.create_on_update
        self.unconditional_update = rules.unconditional_update
        self.selectable = rules.selectable

    def decode(self, obj: Object, problems: list[str], raw: bytes | None = None) -> Object:
        schema = self._schema
        if schema is None:
            schema = self._schema = self._definition.schema(self._version)
        decoded = decode_native(schema, self._definition.kind, self._version, obj, problems, raw)
        strip_cluster(decoded)
        self._rules.default(decoded)
        return decoded

    def decode_applied(self, obj: Object) -> Object:
        return self.decode(obj, [])

    def before_create(self, obj: Object, facts: Facts) -> Verdict:
        return before_create(self._rules, obj, facts)

    def before_update(self, new: Object, old: Object, subresource: str, facts: Facts) -> Verdict:
        rules = self._rules.subresources[subresource] if subresource else self._rules
        return before_update(rules, new, old, facts)


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
