"""JSON patches of webhooks and policies, with the errors of the Go library that applies them."""

from __future__ import annotations

import re
from typing import Any

import orjson

from pykcp.admission.subject import typed
from pykcp.admission.webhooks.review import unfit
from pykcp.machinery.patch import jsonpatch
from pykcp.machinery.patch.refusals import PatchTooCostly, unexpected
from pykcp.machinery.schema.decode import DecodeError
from pykcp.machinery.schema.growth import bounded
from pykcp.machinery.status import BadRequest, InternalError, StatusError, go_quote
from pykcp.registry import codec
from pykcp.registry.catalog.native import decode_native
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import ShownKind
from pykcp.types import JSON, Object

_INDEX = re.compile(r"[+-]?[0-9]{1,18}\Z")
_KINDS = ("add", "remove", "replace", "move", "copy", "test")


class PatchFailed(Exception):
    """An operation does not apply; `is_test`: it is a test whose value differs."""

    def __init__(self, message: str, *, is_test: bool = False) -> None:
        super().__init__(message)
        self.is_test = is_test


def apply_patch(
    document: Object, operations: list[Any], budget: jsonpatch.Budget | None = None
) -> JSON:
    """The document after all operations: another one, also if there are none."""
    if not operations:
        return codec.copy(document)
    run = jsonpatch.PatchRun(document, budget)
    for operation in operations:
        try:
            run.step(operation)
        except PatchTooCostly as error:
            raise PatchFailed(error.why) from error
        except StatusError as error:
            raise _explained(run.root, operation or {}) from error
    return run.root


def _explained(document: JSON, operation: Object) -> PatchFailed:
    kind = operation.get("op")
    if kind not in _KINDS:
        return PatchFailed(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
    path = operation.get("path")
    if not isinstance(path, str):
        return PatchFailed(
            f"{kind} operation failed to decode path: operation missing path field: missing value"
        )
    if kind in ("move", "copy"):
        return _explained_transfer(document, operation, kind, path)
    container, key = _walk(document, path)
    if kind == "test":
        if container is None:
            why = f"test operation does not apply: is missing path: {path}: missing value"
            return PatchFailed(why)
        problem = _index_problem(container, key)
        if problem:
            return PatchFailed(f"error in test for path: '{path}': {problem}")
        return PatchFailed(f"testing value {path} failed: test failed", is_test=True)
    if container is None:
        shown = path if kind == "replace" else f'"{path}"'
        why = f"{kind} operation does not apply: doc is missing path: {shown}: missing value"
        return PatchFailed(why)
    if kind == "replace":
        why = f"replace operation does not apply: doc is missing key: {path}: missing value"
        return PatchFailed(why)
    if isinstance(container, dict):
        problem = f"Unable to remove nonexistent key: {key}: missing value"
    else:
        problem = _index_problem(container, key)
    return PatchFailed(f"error in {kind} for path: '{path}': {problem}")


def _explained_transfer(document: JSON, operation: Object, kind: str, path: str) -> PatchFailed:
    source = operation.get("from")
    if not isinstance(source, str):
        why = "operation, missing from field: missing value"
        return PatchFailed(f"{kind} operation failed to decode from: {why}")
    container, key = _walk(document, source)
    if container is None:
        why = f"doc is missing from path: {source}: missing value"
        return PatchFailed(f"{kind} operation does not apply: {why}")
    problem = _index_problem(container, key)
    if problem and kind == "copy":
        return PatchFailed(f"error in copy for from: '{source}': {problem}")
    if not problem and kind == "move" and isinstance(container, dict) and key not in container:
        problem = f"Unable to remove nonexistent key: {key}: missing value"
    if problem:
        return PatchFailed(f"error in move for path: '{key}': {problem}")
    why = f"doc is missing destination path: {path}: missing value"
    return PatchFailed(f"{kind} operation does not apply: {why}")


def _walk(document: JSON, path: str) -> tuple[Any, str]:
    """The container that a pointer ends in (None if there is none) and the key in it."""
    segments = [s.replace("~1", "/").replace("~0", "~") for s in path.split("/")]
    if len(segments) < 2:
        return None, ""
    here = document
    for segment in segments[1:-1]:
        if isinstance(here, dict):
            here = here.get(segment)
        elif isinstance(here, list) and _INDEX.match(segment) and int(segment) < len(here):
            here = here[int(segment)]
        else:
            return None, ""
    return (here, segments[-1]) if isinstance(here, (dict, list)) else (None, "")


def _index_problem(container: Any, key: str) -> str:
    if isinstance(container, dict):
        return ""
    if not _INDEX.match(key):
        number = f'strconv.Atoi: parsing "{key}": invalid syntax'
        return f"value was not a proper array index: '{key}': {number}"
    if -len(container) <= int(key) < len(container):
        return ""
    return f"Unable to access invalid index: {int(key)}: invalid index referenced"


async def read_patched(
    resource: Resource,
    patched: JSON,
    cluster: str,
    *,
    strict: bool = False,
    kind: ShownKind | None = None,
    can_restart: bool = False,
) -> Object:
    """`decoded`, by a worker process if the object is large.

    `can_restart`: Outgrown may be raised, if it becomes so by its defaults.
    """
    large = resource.services.large
    if large is None or kind is not None or resource.source is None:
        return decoded(resource, patched, strict=strict, kind=kind)
    text = orjson.dumps(patched)
    if not resource.is_large(len(text)):
        with bounded(can_restart):
            return decoded(resource, patched, strict=strict)
    found: Object = orjson.loads(await large.read_patched(resource, cluster, text, strict))
    return found


def patched_document(before: Object, operations: list[Any], cluster: str) -> JSON:
    """What a webhook's patch makes of an object, not yet read as one of its kind."""
    try:
        return apply_patch(codec.with_cluster(before, cluster), operations)
    except PatchFailed as error:
        raise InternalError(str(error)) from error


def patched_object(
    resource: Resource, obj: Object, operations: list[Any], cluster: str
) -> Object | None:
    """What a webhook's patch makes of an object; None if that is the same."""
    before = typed(resource, obj)
    new = decoded(resource, patched_document(before, operations, cluster))
    return None if new == before else new


def decoded(
    resource: Resource, patched: JSON, *, strict: bool = False, kind: ShownKind | None = None
) -> Object:
    """A patched object as its kind reads it: typed or pruned, and defaulted.

    `kind`: its kind, if it is not the resource's own kind. An object that cannot be decoded is
    an internal error: the webhook is at fault, not the client.
    """
    if not isinstance(patched, dict):
        raise InternalError(f"couldn't get version/kind; json parse error: {unfit(patched)}")
    problems: list[str] = []
    found = (
        _read(resource, patched, problems) if kind is None else _read_as(kind, patched, problems)
    )
    if strict and problems:
        raise InternalError(f"strict decoding error: {', '.join(problems)}")
    of = kind or resource
    return {**found, "kind": of.kind, "apiVersion": of.api_version}


def _read(resource: Resource, patched: Object, problems: list[str]) -> Object:
    given, version = patched.get("kind"), resource.version
    if given != resource.kind:
        raise InternalError(
            f"converting ({version}.{given}) to ({version}.{resource.kind}): unknown conversion"
        )
    try:
        return resource.rules.decode(patched, problems)
    except BadRequest as error:
        why = _cause(error)
        refusal = InternalError(why) if resource.definition.native else unexpected(why)
        raise refusal from error


def _read_as(kind: ShownKind, patched: Object, problems: list[str]) -> Object:
    """The same for what is shown as another kind, which upstream reads in another way."""
    given, version = patched.get("kind"), patched.get("apiVersion")
    if (given, version) != (kind.kind, kind.api_version):
        raise unexpected(
            f"no kind {go_quote(str(given))} is registered for version {go_quote(str(version))} "
            'in scheme "pkg/runtime/scheme.go:111"'
        )
    try:
        found = decode_native(kind.schema, kind.kind, kind.version, patched, problems, None)
    except BadRequest as error:
        why = _cause(error)
        if why.endswith("of type int32"):
            why = "unrecognized type: int32"
        what = f"{kind.api_version}, Kind={kind.kind}"
        raise unexpected(f"unable to convert unstructured object to {what}: {why}") from error
    codec.strip_cluster(found)
    return found


def _cause(error: BadRequest) -> str:
    cause = error.__cause__
    return str(cause if isinstance(cause, DecodeError) else error)
