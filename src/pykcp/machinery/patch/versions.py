"""The versions of a kind, as its managers wrote in them."""

from __future__ import annotations

from typing import Protocol

from pykcp.machinery.patch import checking
from pykcp.machinery.patch.shapes import MapShape
from pykcp.machinery.patch.shaping import shape_of
from pykcp.machinery.schema.model import Schema
from pykcp.types import Object


class Versions(Protocol):
    """The other versions of a kind."""

    def schema(self, api_version: str) -> Schema | None:
        """The schema of a version; None if it is not served (any more)."""
        ...

    def convert(self, obj: Object, api_version: str) -> Object:
        """An object in another version, apiVersion included; it is not changed itself."""
        ...


class Views:
    """Shapes and conversions of one kind, seen from one of its versions."""

    def __init__(
        self, schema: Schema, api_version: str, versions: Versions | None, *, structured: bool
    ) -> None:
        self.api_version = api_version
        self.shape_here = shape_of(schema, structured=structured)
        self._structured = structured
        self._versions = versions
        self._shapes: dict[str, MapShape] = {api_version: self.shape_here}

    def shape(self, api_version: str) -> MapShape | None:
        """The shape of a version; None if there is no such version."""
        shape = self._shapes.get(api_version)
        if shape is None:
            schema = None if self._versions is None else self._versions.schema(api_version)
            if schema is None:
                return None  # not remembered: clients may name any version
            shape = self._shapes[api_version] = shape_of(schema, structured=self._structured)
        return shape

    def convert(self, obj: Object, api_version: str) -> Object:
        """An object in another version that there is; Untypable if it does not fit there."""
        if obj.get("apiVersion", self.api_version) == api_version:
            return obj
        assert self._versions is not None, "there is another version"
        out = self._versions.convert(obj, api_version)
        shape = self.shape(api_version)
        assert shape is not None, "there is such a version"
        checking.check(shape, out, allow_duplicates=False)
        return out
