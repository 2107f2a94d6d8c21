"""What a PUT, a PATCH or a POST makes of the live object, as data.

A recipe holds a request's body and all that matters of the request, and nothing of the server:
it is carried out here, or sent to a worker process if the body or the object is large. Binding
it to a resource reads the body; the function that comes out of that makes the new object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, cast

from pykcp.machinery.patch import gojson, gotext, jsonpatch, mergepatch, strategic
from pykcp.machinery.schema.unstructured import Inconvertible, converted, word_error
from pykcp.machinery.status import BadRequest, Invalid, invalid
from pykcp.registry import codec
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.changes import Make
from pykcp.registry.verbs.preconditions import check_name
from pykcp.server.media import yaml_text
from pykcp.server.media.bodies import (
    Sent,
    Warn,
    check_custom_kind,
    check_type,
    mark_reset,
    raise_or_warn,
    read_sent,
)
from pykcp.types import JSON, Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class _OfBody:
    """What all of them hold: the body."""

    is_apply: ClassVar[bool] = False
    is_patch: ClassVar[bool] = False
    sent: Sent

    @property
    def size(self) -> int:
        return self.sent.weight


@dataclass(frozen=True, slots=True)
class Creation(_OfBody):
    """POST: the body is the object."""

    def bind(self, resource: Resource, warn: Warn) -> Make:
        obj = read_sent(self.sent, resource, warn)
        return lambda _live: obj


@dataclass(frozen=True, slots=True)
class Replacement(_OfBody):
    """PUT: the body is the object, under the name that the URL says."""

    namespace: str
    name: str

    def bind(self, resource: Resource, warn: Warn) -> Make:
        first = [self._read(resource, warn)]

        def make(_live: Object | None) -> Object:
            # The body is decoded again for another try: the registry changes what it is given.
            return first.pop() if first else self._read(resource, warn)

        return make

    def _read(self, resource: Resource, warn: Warn) -> Object:
        obj = read_sent(self.sent, resource, warn)
        check_name(resource, self.namespace, self.name, obj)
        return obj


@dataclass(frozen=True, slots=True)
class Patching(_OfBody):
    """PATCH with a JSON, merge or strategic merge patch."""

    is_patch: ClassVar[bool] = True

    namespace: str
    name: str
    cluster: str
    """The logical cluster that the object's annotation names; "" if it has no such annotation."""

    def bind(self, resource: Resource, warn: Warn) -> Make:
        found: list[str] = []
        changed: Callable[[Object], JSON] | None = None
        keeps_type = self.sent.form == STRATEGIC_PATCH

        def make(live: Object | None) -> Object:
            nonlocal changed
            assert live is not None  # only apply creates
            if changed is None:  # not before: that there is no object comes first
                changed = self._patcher(resource, found)
            patched = changed(live)
            if keeps_type:
                self._check_type_words(patched)
                patched = {**patched, "kind": resource.kind, "apiVersion": resource.api_version}
            elif (
                resource.definition.native
                and isinstance(patched, dict)
                and not patched.get("apiVersion", "")
            ):
                # upstream takes it for an object of another kind, and finds no name in that
                raise BadRequest(
                    f"the name of the object ({self.name} based on URL) was undeterminable: "
                    "name must be provided"
                )
            new = self._decode(resource, patched, list(found), warn)
            check_name(resource, self.namespace, self.name, new)
            return new

        return make

    def _patcher(self, resource: Resource, problems: list[str]) -> Callable[[Object], JSON]:
        """The patch, read once; applied to the live object as often as the write is tried."""
        body, form = self.sent.body, self.sent.form
        strict = self.sent.field_validation != "Ignore"
        if form == JSON_PATCH:
            operations, found = jsonpatch.decode(body, strict=strict)
            problems += found
            return lambda live: jsonpatch.apply(codec.copy(self._as_served(live)), operations)
        if form == MERGE_PATCH:
            merge, found = mergepatch.decode(body, strict=strict)
            problems += found
            if resource.definition.native:
                return lambda live: mergepatch.apply(live, merge)
            # what the patch leaves alone is the live object's own, and defaults are filled in place
            return lambda live: mergepatch.apply(codec.copy(live), merge)
        document, found = strategic.decode(body, strict=strict)
        problems += found
        schema = resource.definition.schema(resource.version)
        return lambda live: strategic.apply(schema, live, document)

    def _as_served(self, live: Object) -> Object:
        """The object that the client knows: its operations name what they find there."""
        return codec.with_cluster(live, self.cluster) if self.cluster else live

    def _decode(self, resource: Resource, patched: JSON, problems: list[str], warn: Warn) -> Object:
        """The patched object, typed; what does not fit is the patch's fault: 422.

        `problems` are those found in the patch itself.
        """
        if self.sent.form == STRATEGIC_PATCH and resource.definition.native:
            return self._convert(resource, cast("Object", patched), problems, warn)
        text = codec.sorted_text(patched)
        try:
            if resource.definition.native or resource.definition.is_kubernetes:
                obj = mark_reset(check_type(patched, resource.kind, resource.api_version, text))
            else:
                obj = patched
                if isinstance(obj, dict) and not obj.get("kind"):
                    raise bad_patch(text, f"Object 'Kind' is missing in '{text.decode()}'")
                check_custom_kind(obj, resource)
            new = resource.rules.decode(obj, problems)
        except BadRequest as error:
            raise bad_patch(
                text, str(error).partition(f"as a {resource.kind}: ")[2] or str(error)
            ) from error
        self._judge(problems, text, warn)
        return new

    def _judge(self, problems: list[str], text: bytes, warn: Warn) -> None:
        validation = self.sent.field_validation
        if problems and validation == "Strict":
            raise bad_patch(text, "strict decoding error: " + ", ".join(problems))
        if validation != "Ignore":
            raise_or_warn(validation, problems, warn)

    def _convert(
        self, resource: Resource, patched: Object, problems: list[str], warn: Warn
    ) -> Object:
        """What a strategic patch made, typed by Go's converter, which takes what JSON decoding does.

        It is asked when decoding fails only: what fits comes out as it would there.
        """
        unknown: list[str] = []
        patched = mark_reset(patched)
        try:
            new = resource.rules.decode(patched, unknown)
        except BadRequest:
            schema = resource.definition.schema(resource.version)
            try:
                patched = converted(schema, patched)
            except Inconvertible as error:
                raise bad_patch(self._shown(), str(error)) from error
            new = resource.rules.decode(patched, unknown)
        problems += sorted(unknown)
        self._judge(problems, self._shown() if problems else b"", warn)
        return new

    def _check_type_words(self, patched: JSON) -> None:
        """A strategic patch cannot change what an object is, but must not put anything else there."""
        for key in ("kind", "apiVersion"):
            value = patched.get(key)
            if value is not None and not isinstance(value, str):
                raise bad_patch(self._shown(), word_error(value))

    def _shown(self) -> bytes:
        """A strategic patch as Go's errors show it, after the merge has taken its directives out."""
        patch, _ = strategic.decode(self.sent.body, strict=False)
        return gotext.show(_without_directives(patch)).encode()


def _without_directives(patch: JSON) -> JSON:
    if not isinstance(patch, dict):
        return patch
    ordered = {name.removeprefix(_ORDER) for name in patch if name.startswith(_ORDER)}
    return {
        name: _without_directives(value)
        for name, value in patch.items()
        if name not in _DIRECTIVES and name not in ordered and not name.startswith(_ORDER)
    }


_DIRECTIVES = ("$patch", "$retainKeys")
_ORDER = "$setElementOrder/"


def bad_patch(text: bytes, why: str) -> Invalid:
    """What a patch made of an object is none of its kind."""
    return Invalid.fields("", "", "", [invalid("patch", text.decode(), why)])


@dataclass(frozen=True, slots=True)
class Applying(_OfBody):
    """PATCH with an applied configuration."""

    is_apply: ClassVar[bool] = True

    namespace: str
    name: str
    subresource: str
    manager: str
    now: str
    force: bool

    def bind(self, resource: Resource, warn: Warn) -> Make:
        document: Object | None = None

        def make(live: Object | None) -> Object:
            nonlocal document
            if document is None:  # not before: that there is no object comes first
                document = self.document()
                codec.strip_cluster(document)
            merged = resource.rules.manage_apply(
                live,
                codec.copy(document),
                self.manager,
                self.subresource,
                self.now,
                force=self.force,
            )
            self.judge_repeated_keys(warn)
            new = resource.rules.decode_applied(merged)
            check_name(resource, self.namespace, self.name, new)
            return new

        return make

    def judge_repeated_keys(self, warn: Warn) -> None:
        """Keys that were given more than once: refused together, or warned of one by one."""
        validation = self.sent.field_validation
        repeated = [] if validation == "Ignore" else yaml_text.duplicates(self.sent.body)
        if repeated and validation == "Strict":
            text = yaml_text.strict_error(repeated)
            raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {text}")
        for each in repeated:
            warn(each)

    def document(self) -> Object:
        """The configuration that was sent."""
        try:
            document = yaml_text.parse(self.sent.body)
        except yaml_text.BadYAML as error:
            raise BadRequest(
                f"error decoding YAML: error converting YAML to JSON: {error}"
            ) from error
        if document is None:
            return {}
        if not isinstance(document, dict):
            raise BadRequest(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
                f"unmarshal {gojson.type_word(document)} into Go value of type map[string]interface {{}}"
            )
        return document
