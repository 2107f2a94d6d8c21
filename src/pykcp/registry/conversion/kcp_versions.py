"""kcp's kinds with two versions: exports and bindings are converted in the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp import conversion
from pykcp.machinery.kcp.claims import APIS_GROUP
from pykcp.machinery.schema.custom import CustomType
from pykcp.registry import codec
from pykcp.registry.conversion.review import ConversionFailed
from pykcp.registry.resource import Conversion
from pykcp.types import Object


class _Pair(NamedTuple):
    to_new: Callable[[Object], Object]
    to_old: Callable[[Object], Object]


_PAIRS = {
    "apiexports": _Pair(conversion.export_to_v1alpha2, conversion.export_to_v1alpha1),
    "apibindings": _Pair(conversion.binding_to_v1alpha2, conversion.binding_to_v1alpha1),
}


def _pair_of(definition: ResourceDefinition) -> _Pair | None:
    return _PAIRS.get(definition.plural) if definition.group == APIS_GROUP else None


def between_versions(
    definition: ResourceDefinition,
) -> Callable[[Object, str], Object] | None:
    """For field managers: an object of one version in the other, its type included."""
    pair = _pair_of(definition)
    if pair is None:
        return None
    newer, to_new = definition.api_version(definition.storage_version), _strict(pair.to_new)

    def converted(obj: Object, api_version: str) -> Object:
        convert = to_new if api_version == newer else pair.to_old
        return {**convert(obj), "apiVersion": api_version}

    return converted


def conversion_for(
    definition: ResourceDefinition, version: str, served: CustomType, stored: CustomType
) -> Conversion | None:
    """Between the older version and what is stored; None where both are the same."""
    pair = _pair_of(definition)
    if pair is None or version == definition.storage_version:
        return None
    to_new = _strict(pair.to_new)
    return Conversion(
        to_storage=lambda obj: stored.read(codec.copy(to_new(obj))),
        from_storage=lambda obj: served.pruned(pair.to_old(obj)),
    )


def _strict(convert: Callable[[Object], Object]) -> Callable[[Object], Object]:
    def converted(obj: Object) -> Object:
        try:
            return convert(obj)
        except conversion.BadSchemaName as error:
            raise ConversionFailed(str(error)) from error

    return converted
