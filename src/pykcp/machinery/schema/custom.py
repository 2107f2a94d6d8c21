"""Custom resources: a schema made ready for use.

A `CustomType` decodes what clients send and the store holds (pruning, nulls, defaults,
metadata) and validates it. Types are shared by content: two clusters with the same schema
have one.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy as _copy
from functools import cached_property
from typing import Any

from pykcp.caching import BoundedCache
from pykcp.machinery.patch.gojson import may_have_duplicates
from pykcp.machinery.schema import diagnose
from pykcp.machinery.schema.decode import DecodeError, TypedDecoder, decoder_for
from pykcp.machinery.schema.defaulting import (
    Filler,
    compile_defaulter,
    compile_plain_defaulter,
    has_default,
)
from pykcp.machinery.schema.embedded import (
    EmbeddedError,
    MetaCheck,
    coerce,
    embedded_errors,
    has_embedded,
)
from pykcp.machinery.schema.listtypes import compile_list_check, list_errors
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.schema.pruning import Pruner, compile_pruner
from pykcp.machinery.schema.scanning import UNKNOWN, Scan, compile_scan
from pykcp.machinery.schema.validation import Check, compile_check
from pykcp.machinery.schema.violations import schema_errors
from pykcp.machinery.status import FieldError, invalid
from pykcp.types import Object

_KEEP = 1024

_BLOCKING = frozenset(
    (
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    )
)


class CustomType:
    """One schema, compiled part by part on first use: what is only read needs none of it.

    Shared, and safe to use from anywhere.
    """

    def __init__(
        self, schema: Schema, object_meta: Schema, published: Schema | None = None
    ) -> None:
        self.schema = schema
        self.published = published or schema
        self._object_meta = object_meta
        self._of_status = schema.properties.get("status")

    @cached_property
    def _meta(self) -> TypedDecoder:
        return decoder_for(self._object_meta)

    @cached_property
    def _prune(self) -> Pruner:
        return compile_pruner(self.schema)

    @cached_property
    def _scan(self) -> Scan:
        return compile_scan(self.schema)

    @cached_property
    def _fill(self) -> Filler:
        return compile_defaulter(self.schema)

    @cached_property
    def _fill_plain(self) -> Callable[[Any], None] | None:
        return compile_plain_defaulter(self.schema)

    @cached_property
    def _check(self) -> Check:
        return compile_check(self.schema)

    @cached_property
    def _embeds(self) -> bool:
        return has_embedded(self.schema)

    @cached_property
    def _lists(self) -> Check | None:
        return compile_list_check(self.schema)

    @cached_property
    def _status(self) -> Check | None:
        return compile_check(self._of_status) if self._of_status is not None else None

    @cached_property
    def _fills_status(self) -> bool:
        return self._of_status is not None and has_default(self._of_status)

    def decode(
        self,
        value: Object,
        problems: list[str],
        raw: bytes | None = None,
        *,
        keeps_nulls: bool = False,
    ) -> Object:
        """What a client sent, in place: pruned, defaulted, its metadata as every object's.

        Duplicate fields (if the text is given) and unknown ones are added to `problems`.
        DecodeError if metadata has the wrong type. `keeps_nulls`: those that the schema does
        not allow stay, to be refused.
        """
        try:
            return self._decode(value, problems, raw, keeps_nulls)
        except RecursionError:
            raise diagnose.too_deep() from None

    def _decode(
        self, value: Object, problems: list[str], raw: bytes | None, keeps_nulls: bool
    ) -> Object:
        is_odd = raw is not None and may_have_duplicates(raw, value)
        if is_odd and raw is not None:
            problems += diagnose.duplicate_fields(raw)
        self._decode_metadata(value, problems)
        # One pass over the object decides which of the slower passes it needs; usually none.
        flags = self._scan(value)
        if flags & UNKNOWN:
            dropped: list[str] = []
            self._prune(value, None, dropped)
            problems += (f'unknown field "{path}"' for path in sorted(dropped))
        if self._embeds:
            try:
                unknown = coerce(self.schema, value, self._meta)
            except EmbeddedError as error:
                raise DecodeError(str(error)) from error
            problems += (f'unknown field "{path}"' for path in unknown)
        self._complete(value, flags, drops_nulls=not keeps_nulls)
        if is_odd:
            diagnose.refuse_depth(value)
        return value

    def read(self, value: Object) -> Object:
        """What the store holds, in place: pruned and defaulted by the schema of today."""
        flags = self._scan(value)
        if flags & UNKNOWN:
            self._prune(value, None, [])
        self._complete(value, flags)
        return value

    def complete_status(self, value: Object) -> None:
        """Default what a write left out of `status`, as a read of it from the store would."""
        if self._fills_status and "status" not in value and self._fill_plain is not None:
            self._fill_plain(value)

    def pruned(self, value: Object) -> Object:
        """What the store holds in another version, in place, with what this one knows of it."""
        self._prune(value, None, [])
        return value

    def _complete(self, value: Object, flags: int, *, drops_nulls: bool = True) -> None:
        if flags:
            self._fill(value, drops_nulls)
        elif self._fill_plain is not None:
            self._fill_plain(value)

    def _decode_metadata(self, value: Object, problems: list[str]) -> None:
        if "metadata" not in value:
            return
        given = value["metadata"]
        found: list[str] = []
        value["metadata"] = self._meta.decode(given if given is not None else {}, found)
        problems += (p.replace(' field "', ' field "metadata.', 1) for p in found)

    def errors(self, obj: Object, old: Object | None = None) -> list[FieldError]:
        """Violations of the schema and its list types; unchanged parts may keep theirs."""
        errors: list[FieldError] = []
        if not self._check(obj):
            errors += schema_errors(self.schema, obj, old, ratcheting=old is not None)
        return errors + self._list_errors(obj, old)

    def _list_errors(self, obj: Object, old: Object | None) -> list[FieldError]:
        if self._lists is None or self._lists(obj):
            return []
        if old is not None and list_errors(self.schema, old):
            return []
        return list_errors(self.schema, obj)

    def status_errors(self, obj: Object, old: Object) -> list[FieldError]:
        """The same for a write to the status subresource, which may change nothing else."""
        errors: list[FieldError] = []
        if self._status is not None and "status" in obj and not self._status(obj["status"]):
            status = self.schema.properties["status"]
            errors += schema_errors(
                status, obj["status"], old.get("status"), path="status", ratcheting=True
            )
        return errors + self._list_errors(obj, old)

    def embedded_errors(self, obj: Object, check_meta: MetaCheck) -> list[FieldError]:
        """What is wrong with embedded objects as objects."""
        return embedded_errors(self.schema, obj, check_meta) if self._embeds else []


def rules_blocked(errors: list[FieldError], *, has_name: bool = True) -> FieldError | None:
    """Said instead of running CEL rules over an object that is not even well formed.

    `errors` are those of the schema; of the metadata's, only that the name is missing counts.
    """
    if has_name and not any(e.reason in _BLOCKING for e in errors):
        return None
    return invalid(
        "<nil>",
        None,
        "some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation",
    )


def body_schema(schema: Schema) -> Schema:
    """A kind's schema without what all objects have in common; restrictions on names stay."""
    metadata = schema.properties.get("metadata")
    body = {n: c for n, c in schema.properties.items() if n not in _COMMON}
    if metadata is not None and metadata.component is not None:
        if metadata.properties is not metadata.component.properties:
            body["metadata"] = Schema(type="object", properties=metadata.properties)
    elif metadata is not None:
        body["metadata"] = metadata
    out = _copy(schema)
    out.properties = body
    return out


_COMMON = frozenset(("apiVersion", "kind", "metadata"))

_types: BoundedCache[int, CustomType] = BoundedCache("custom-types", _KEEP)


def custom_type(schema: Schema, object_meta: Schema) -> CustomType:
    """The compiled form of a definition's schema, made on first use.

    Kept for as long as the schema itself is: both are shared by content.
    """
    found = _types.get(id(schema))
    if found is None or found.published is not schema:
        found = _types.put(id(schema), CustomType(body_schema(schema), object_meta, schema))
    return found
