"""From a definition to a resource: which rules, which conversion."""

from __future__ import annotations

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kube.validation import strategy_for
from pykcp.apis.kube.validation.rules import metadata_rules
from pykcp.registry.native import NativeKind
from pykcp.registry.resource import Resource, Services


def make_resource(definition: ResourceDefinition, version: str, services: Services) -> Resource:
    try:
        rules = strategy_for(definition.group, definition.plural)
    except KeyError:
        rules = metadata_rules(definition.namespaced)
    kind = NativeKind(definition, version, rules)
    return Resource(definition, version, kind, services)
