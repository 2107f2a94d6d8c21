"""A large write as admission sees it: its objects are decoded only if a plug-in needs them."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from pykcp.registry import codec
from pykcp.registry.context import RequestContext
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.changes import live_object
from pykcp.registry.verbs.large_work import Made, ValidatedObject
from pykcp.registry.verbs.object_parts import ObjectParts
from pykcp.types import Object


class LargeRequest(AdmissionRequest):
    """A write whose objects are decoded only for plug-ins that look at them."""

    __slots__ = ("_is_old_shown", "_obj", "_old", "_old_value", "_parts", "_text", "finding")

    def __init__(
        self,
        context: RequestContext,
        resource: Resource,
        operation: str,
        namespace: str,
        made: Made,
        old: bytes | None = None,
        subresource: str = "",
    ) -> None:
        self.finding = ""
        """Results of the checks in the worker, for the plug-in that needs them."""
        self._text = made.text
        self._parts: ObjectParts | None = None
        """The object while only its metadata was looked at."""
        self._old_value = old
        self._is_old_shown = False
        """Whether it is the text that clients see, rather than a stored value."""
        self._obj: Object | None = None
        self._old: Object | None = None
        super().__init__(context, resource, operation, namespace, made.name, None, None)
        self.subresource = subresource

    @property
    def obj(self) -> Object | None:
        if self._obj is None:
            self._obj = orjson.loads(self.text())
            self._parts = None
        return self._obj

    @obj.setter
    def obj(self, value: Object | None) -> None:
        self._obj = value

    @property
    def old(self) -> Object | None:
        if self._old is None and self._old_value is not None:
            self._old = (
                codec.decode_without_cluster(self._old_value)
                if self._is_old_shown
                else live_object(self.resource, self._old_value)
            )
        return self._old

    @old.setter
    def old(self, value: Object | None) -> None:
        self._old = value

    @property
    def has_object(self) -> bool:
        return self._obj is not None or self._text != NOTHING

    @property
    def metadata(self) -> Object:
        if self._obj is not None or not self.has_object:
            return super().metadata
        return self._split().metadata

    def _split(self) -> ObjectParts:
        if self._parts is None:
            self._parts = ObjectParts(self._text)
        return self._parts

    @property
    def old_metadata(self) -> Object:
        if self._old is not None or self._old_value is None:
            return super().old_metadata
        return ObjectParts(self._old_value).metadata

    def spec_with(self, names: Iterable[str]) -> Object | None:
        if self._obj is not None or not self.has_object:
            return super().spec_with(names)
        return self._split().spec(names)

    def managed_fields(self) -> object:
        if self._obj is not None or not self.has_object:
            return super().managed_fields()
        return self._split().managed_fields

    def may_mention(self, word: str) -> bool:
        return self.is_decoded or word.encode() in self._text

    @property
    def is_decoded(self) -> bool:
        """Whether a plug-in looked at the object, and may have changed it."""
        return self._obj is not None or self._parts is not None

    def text(self) -> bytes:
        """The object as plug-ins left it."""
        if self._obj is not None:
            return orjson.dumps(self._obj)
        return self._text if self._parts is None else self._parts.text()

    def old_text(self) -> bytes | None:
        """The old object, to be decoded by a worker."""
        return self._old_value if self._old is None else orjson.dumps(self._old)

    def shown_texts(self, cluster: str = "") -> tuple[bytes, bytes] | None:
        """The JSON text of the new and the old object, with type and logical cluster.

        None if they would have to be decoded for it.
        """
        old, resource = self._old_value, self.resource
        if self._obj is not None or self._old is not None or self.unread_old() is not None:
            return None
        if old is not None and not self._is_old_shown:
            old = resource.served(old)
        return (
            _shown_text(resource, self._split(), cluster) if self.has_object else NOTHING,
            NOTHING if old is None else _shown_text(resource, ObjectParts(old), cluster),
        )

    def unread_old(self) -> bytes | None:
        """The stored old object, if it must be decoded to be shown: see `show_old`."""
        old, resource = self._old_value, self.resource
        if old is None or self._is_old_shown:
            return None
        return old if resource.conversion is not None or resource.is_older(old) else None

    def show_old(self, text: bytes) -> None:
        """The old object as clients see it."""
        self._old_value, self._is_old_shown = text, True

    def replace(self, text: bytes) -> None:
        """From here on, the object is this one."""
        self._text, self._obj, self._parts = text, None, None

    def show(self, judged: ValidatedObject) -> None:
        """From here on, the object is the one that passed validation."""
        self.replace(judged.shown)
        self.finding = judged.finding


NOTHING = b"null"
"""The text of an object that there is not."""


def _shown_text(resource: Resource, parts: ObjectParts, cluster: str) -> bytes:
    annotations = dict(parts.metadata.get("annotations") or {})
    annotations.pop(codec.CLUSTER_ANNOTATION, None)
    if cluster:
        annotations[codec.CLUSTER_ANNOTATION] = cluster
    return parts.text(annotations, kind=resource.kind, apiVersion=resource.api_version)


def deletion_request(
    ctx: RequestContext, resource: Resource, namespace: str, name: str, value: bytes
) -> LargeRequest:
    """A delete as admission sees it, with an object that is decoded only if it is looked at."""
    nothing = Made(NOTHING, name, "", [])
    return LargeRequest(ctx, resource, "DELETE", namespace, nothing, value)
