"""From a definition to a resource: which rules, which conversion."""

from __future__ import annotations

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kube.validation import strategy_for
from pykcp.apis.kube.validation.rules import KindRules, metadata_rules
from pykcp.registry.kinds import Kind
from pykcp.registry.native import NativeKind
from pykcp.registry.resource import Resource, Services
from pykcp.registry.schema_kind import SchemaKind


def make_resource(definition: ResourceDefinition, version: str, services: Services) -> Resource:
    kind: Kind
    if definition.native:
        kind = NativeKind(definition, version, _rules_of(definition))
    else:
        kind = SchemaKind(definition, version)
    conversion = None
    if definition.stored_as is not None:
        from pykcp.registry.events import EVENTS_CONVERSION

        conversion = EVENTS_CONVERSION
    return Resource(definition, version, kind, services, conversion)


def _rules_of(definition: ResourceDefinition) -> KindRules:
    try:
        return strategy_for(definition.group, definition.plural)
    except KeyError:
        return metadata_rules(definition.namespaced)
