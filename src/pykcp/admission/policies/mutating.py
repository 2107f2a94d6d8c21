"""Evaluating one mutation of a mutating policy: an expression, then the patch it says."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

import orjson

from pykcp.admission.expressions.evaluating import (
    FULL,
    POLICY_BUDGET,
    Evaluation,
    EvaluationLimits,
    OutOfBudget,
)
from pykcp.admission.patches import PatchFailed, apply_patch, decoded, read_patched
from pykcp.admission.policies.policy import AdmissionPolicy, Mutation
from pykcp.admission.subject import Subject
from pykcp.apis.catalog import ResourceDefinition
from pykcp.machinery.cel.library.times import duration_text, timestamp_text
from pykcp.machinery.cel.runtime.values import BoolKey, Duration, Optional, Timestamp, UInt
from pykcp.machinery.patch import checking, merging
from pykcp.machinery.patch.shapes import (
    AnyShape,
    ListShape,
    MapShape,
    ScalarShape,
    Shape,
    Untypable,
)
from pykcp.machinery.patch.shaping import shape_of
from pykcp.machinery.schema.growth import bounded
from pykcp.registry import codec
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import ShownKind
from pykcp.types import JSON, Object


class MutationFailed(Exception):
    """The expression has no value, or its value is no patch for this object."""


def patch_of(
    mutation: Mutation,
    policy: AdmissionPolicy,
    values: dict[str, Any],
    limits: EvaluationLimits = FULL,
) -> JSON:
    """What the expression says: the operations of a JSON patch, or a configuration to apply."""
    value = _value(mutation, policy, values, limits)
    if mutation.expression.misnamed:
        raise MutationFailed(f"type mismatch: {mutation.expression.misnamed}")
    if mutation.patch_type == "JSONPatch":
        return [_operation(item) for item in value]
    return to_json(value)


async def patched_object(
    patch: JSON,
    mutation: Mutation,
    target: Resource,
    subject: Subject,
    obj: Object,
    *,
    can_restart: bool,
) -> Object:
    """The object after a patch, in the version that the policy asked for.

    MutationFailed if it cannot be made; an InternalError if its result cannot be decoded.
    Raises Outgrown if it becomes too large for the event loop, and it can be left to a worker.
    """
    kind = subject.kind
    with bounded(can_restart):  # a short patch may copy much
        patched = _patched(patch, mutation, target, kind, obj)
    if patched is None:
        return obj
    strict = mutation.patch_type == "JSONPatch"
    return await read_patched(
        target, patched, subject.cluster, strict=strict, kind=kind, can_restart=can_restart
    )


def mutated(
    policy: AdmissionPolicy, target: Resource, values: dict[str, Any]
) -> tuple[Object, bool, list[str]]:
    """In a worker: the object after all mutations of a policy, whether one of them was made, and
    what went wrong with the others."""
    obj: Object = codec.copy(values["object"])  # decoding changes what it is given
    worked, problems = False, []
    for mutation in policy.mutations:
        try:
            patch = patch_of(mutation, policy, {**values, "object": obj})
            patched = _patched(orjson.loads(orjson.dumps(patch)), mutation, target, None, obj)
        except MutationFailed as error:
            problems.append(str(error))
            continue
        if patched is not None:
            obj = decoded(target, patched, strict=mutation.patch_type == "JSONPatch")
        worked = True
    return obj, worked, problems


def _patched(
    patch: JSON, mutation: Mutation, target: Resource, kind: ShownKind | None, obj: Object
) -> JSON:
    """The object after a patch, not yet decoded; None if a test in the patch does not hold."""
    if mutation.patch_type != "JSONPatch":
        return _applied(target, kind, obj, patch)
    try:
        return apply_patch(obj, patch)
    except PatchFailed as error:
        if error.is_test:
            return None
        raise MutationFailed(f"JSON Patch: {error}") from error


def _value(
    mutation: Mutation, policy: AdmissionPolicy, values: dict[str, Any], limits: EvaluationLimits
) -> Any:
    compiled = mutation.expression
    if compiled.program is None:
        raise MutationFailed(compiled.error)
    evaluation = Evaluation(values, policy.variables, POLICY_BUDGET, limits)
    try:
        result = evaluation.evaluate(compiled)
    except OutOfBudget as error:
        raise MutationFailed(str(error)) from error
    if result.error:
        raise MutationFailed(result.error)
    return result.value


def _operation(item: Any) -> Object:
    operation: Object = {"op": item.get("op", ""), "path": item.get("path", "")}
    if item.get("from"):
        operation["from"] = item["from"]
    if "value" in item:
        operation["value"] = to_json(item["value"])
    return operation


def to_json(value: Any) -> JSON:
    """A CEL value as JSON; MutationFailed if it has no such form."""
    if isinstance(value, dict):
        return {_key(name): to_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, UInt):
        return int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Optional):
        return to_json(value.value) if value.present else None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise MutationFailed(
        "JSONPath valueExpression evaluated to a type that could not marshal to JSON: "
        f"{type(value).__name__}"
    )


def _key(name: Any) -> str:
    if isinstance(name, str):
        return name
    kind = "bool" if isinstance(name, BoolKey) else "int64"
    raise MutationFailed(f'map key "{name}" is of type {kind}, not string')


@lru_cache(maxsize=512)
def _shape(definition: ResourceDefinition, version: str) -> MapShape:
    schema = definition.schema(version)
    return shape_of(schema, structured=bool(schema.go_type))


def _applied(target: Resource, kind: ShownKind | None, obj: Object, patch: Object) -> Object:
    """The object with an applied configuration merged in, by its schema."""
    if kind is None:
        shape = _shape(target.definition, target.version)
    else:
        shape = shape_of(kind.schema, structured=True)
    of = kind or target
    patch = {**patch, "apiVersion": of.api_version, "kind": of.kind}
    try:
        _refuse_nulls(shape, patch, "")
        checking.check(shape, patch, allow_duplicates=False)
    except Untypable as error:
        why = f"failed to convert patch object to typed object: {error}"
        raise MutationFailed(f"error applying patch: {why}") from error
    atomics = list(_atomics(shape, patch, ""))
    if atomics:
        why = f"may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise MutationFailed(f"error applying patch: invalid ApplyConfiguration: {why}")
    try:
        checking.check(shape, obj, allow_duplicates=True)
        merged: Object = merging.merge(shape, obj, patch)
    except Untypable as error:
        why = f"failed to convert original object to typed object: {error}"
        raise MutationFailed(f"error applying patch: {why}") from error
    return merged


_SCALARS = {"numeric": "numeric (int or float)", "untyped": "scalar"}


def _refuse_nulls(shape: Shape, value: JSON, path: str) -> None:
    """Upstream's null is a value of no type that a schema knows."""
    if isinstance(shape, AnyShape):
        return
    if value is None:
        wanted = "map" if isinstance(shape, MapShape) else "list"
        if isinstance(shape, ScalarShape):
            wanted = _SCALARS.get(shape.kind, shape.kind)
        raise Untypable(f"{path}: expected {wanted}, got &{{NULL_VALUE}}")
    if isinstance(shape, MapShape) and isinstance(value, dict):
        for name, item in value.items():
            member = shape.members[name]
            if member is not None:
                _refuse_nulls(member, item, f"{path}.{name}")
    elif isinstance(shape, ListShape) and isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_nulls(shape.items, item, f"{path}[{index}]")


def _atomics(shape: Shape, value: JSON, path: str) -> list[str]:
    """Places in a configuration that can only be replaced as a whole."""
    if isinstance(shape, AnyShape):
        shape = shape.of(value)
    found: list[str] = []
    if isinstance(shape, MapShape) and isinstance(value, dict):
        if shape.is_atomic:
            found.append(path)
        for name, item in value.items():
            member = shape.names.get(name) is not None and shape.members[name]
            if member:
                found += _atomics(member, item, f"{path}.{name}")
    elif isinstance(shape, ListShape) and isinstance(value, list):
        if shape.is_atomic:
            found.append(path)
        for index, item in enumerate(value):
            found += _atomics(shape.items, item, f"{path}[{index}]")
    return found
