"""From a definition to a resource: which rules, which conversion."""

from __future__ import annotations

from functools import partial

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kube.validation import strategy_for
from pykcp.apis.kube.validation.rules import KindRules, metadata_rules
from pykcp.apis.loader import shared_type
from pykcp.machinery.resources import API_RESOURCE_SCHEMAS, CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.schema.crd_text import LARGE_SCHEMA
from pykcp.machinery.schema.custom import CustomType, custom_type
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.schema.openapi_json import to_json
from pykcp.registry import codec
from pykcp.registry.catalog.kinds import Kind
from pykcp.registry.catalog.large_kind import LargeConversion, LargeKind
from pykcp.registry.catalog.native import NativeKind
from pykcp.registry.catalog.schema_kind import SchemaKind
from pykcp.registry.conversion.kcp_versions import between_versions, conversion_for
from pykcp.registry.conversion.review import Converter
from pykcp.registry.conversion.webhook import WebhookConversion
from pykcp.registry.resource import Conversion, Resource, Services


def _object_meta() -> Schema:
    return shared_type("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")


def make_resource(definition: ResourceDefinition, version: str, services: Services) -> Resource:
    """A built-in resource: one of Kubernetes' or of kcp's own."""
    kind: Kind
    if definition.native:
        kind = NativeKind(definition, version, _rules_of(definition))
    else:
        compiled = custom_type(definition.schema(version), _object_meta())
        kind = SchemaKind(definition, version, compiled, converted=between_versions(definition))
    conversion = _to_storage(definition, version)
    if definition.stored_as is not None:
        from pykcp.registry.conversion.events import EVENTS_CONVERSION

        conversion = EVENTS_CONVERSION
    resource = Resource(definition, version, kind, services, conversion)
    resource.source = bytes
    if (definition.group, definition.plural) in _WITH_EXPRESSIONS:
        resource.large_above = _LARGE_EXPRESSIONS
        resource.has_schemas = (definition.group, definition.plural) in _WITH_SCHEMAS
    return resource


_ADMISSION = "admissionregistration.k8s.io"
_WITH_SCHEMAS = frozenset(
    (
        (CUSTOM_RESOURCE_DEFINITIONS.group, CUSTOM_RESOURCE_DEFINITIONS.resource),
        (API_RESOURCE_SCHEMAS.group, API_RESOURCE_SCHEMAS.resource),
    )
)
_WITH_EXPRESSIONS = _WITH_SCHEMAS | frozenset(
    (
        (_ADMISSION, "validatingadmissionpolicies"),
        (_ADMISSION, "mutatingadmissionpolicies"),
        (_ADMISSION, "validatingwebhookconfigurations"),
        (_ADMISSION, "mutatingwebhookconfigurations"),
    )
)
_LARGE_EXPRESSIONS = 4 * 1024
"""Kinds that hold schemas and expressions take more time for their size: these are compiled."""


def make_renamed(
    definition: ResourceDefinition, version: str, services: Services, conversion: Conversion | None
) -> Resource:
    """A resource that is another one under an older name."""
    compiled = custom_type(definition.schema(version), _object_meta())
    return Resource(
        definition, version, SchemaKind(definition, version, compiled), services, conversion
    )


def _to_storage(definition: ResourceDefinition, version: str) -> Conversion | None:
    if definition.native or version == definition.storage_version:
        return None
    served = custom_type(definition.schema(version), _object_meta())
    stored = custom_type(definition.schema(definition.storage_version), _object_meta())
    return conversion_for(definition, version, served, stored)


def make_custom(
    definition: ResourceDefinition, version: str, revision: int, services: Services
) -> Resource:
    """A resource that a CRD defines, as it is since a revision; equal schemas are compiled once."""
    if _is_compiled_elsewhere(definition, version, services):
        return make_large(definition, version, revision, services)
    compiled = custom_type(definition.schema(version), _object_meta())
    webhook = _by_webhook(definition, version, services)
    converted = webhook.converted if webhook is not None else None
    kind = SchemaKind(definition, version, compiled, converted=converted)
    conversion = None
    if definition.storage_version != version and webhook is None:
        stored = custom_type(definition.schema(definition.storage_version), _object_meta())
        conversion = _between(compiled, stored)
    resource = Resource(
        definition,
        version,
        kind,
        services,
        conversion,
        refresh=compiled.read,
        since=revision,
        webhook=webhook,
    )
    resource.source = definition.source
    if webhook is not None and services.large is not None and definition.source is not None:
        webhook.read_large = partial(services.large.read_values, resource)
    if kind.has_rules:
        resource.is_costly = kind.is_costly
    return resource


def _is_compiled_elsewhere(
    definition: ResourceDefinition, version: str, services: Services
) -> bool:
    if services.large is None or definition.source is None:
        return False
    if definition.webhook is None:
        return definition.version(version).weight > LARGE_SCHEMA
    # Conversion needs the schemas of all versions.
    return sum(each.weight for each in definition.all_versions) > LARGE_SCHEMA


def make_large(
    definition: ResourceDefinition, version: str, revision: int, services: Services
) -> Resource:
    """A resource with a schema that only worker processes compile."""

    def kind() -> SchemaKind:
        compiled = custom_type(definition.schema(version), _object_meta())
        return SchemaKind(definition, version, compiled)

    resource = Resource(definition, version, LargeKind(kind), services, since=revision)
    resource.source = definition.source
    resource.large_above = -1
    resource.webhook = LargeConversion(resource)
    return resource


def _by_webhook(
    definition: ResourceDefinition, version: str, services: Services
) -> WebhookConversion | None:
    if definition.webhook is None or services.call_converter is None:
        return None
    stored = definition.stored_versions or (definition.storage_version,)
    return WebhookConversion(
        Converter(
            definition.kind, definition.webhook, services.call_converter, services.sources.uid
        ),
        {
            definition.api_version(v.name): custom_type(v.load_schema(), _object_meta())
            for v in definition.all_versions
        },
        kind=definition.kind,
        own=definition.api_version(version),
        storage=definition.api_version(definition.storage_version),
        unmarked=definition.api_version(stored[0]),
    )


def _between(served: CustomType, stored: CustomType) -> Conversion | None:
    """Each version shows what its schema knows; None if both know the same."""
    if to_json(served.schema, root=True) == to_json(stored.schema, root=True):
        return None
    return Conversion(
        to_storage=lambda obj: stored.read(codec.copy(obj)),
        from_storage=lambda obj: served.pruned(stored.read(obj)),
    )


def _rules_of(definition: ResourceDefinition) -> KindRules:
    try:
        return strategy_for(definition.group, definition.plural)
    except KeyError:
        return metadata_rules(definition.namespaced)
