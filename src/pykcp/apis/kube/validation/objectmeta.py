"""What holds for the metadata of every kind, and the small checks that kinds share.

Upstream checks metadata twice on the way in: once by the kind's own name rule, once by the
generic one. The functions here are those two halves; `rules` puts them in upstream's order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pykcp.machinery import names
from pykcp.machinery.status import (
    MAX_FIELD_ERRORS,
    FieldError,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
)
from pykcp.types import Object

MetaNameRule = Callable[[str, bool], list[str]]
"""What is wrong with a name, or with a `generateName` when the flag is set."""

IMMUTABLE = "field is immutable"
ANNOTATIONS_MAX = 256 * 1024
FIELD_MANAGER_MAX = 128
SUBRESOURCE_NAME_MAX = 256
STANDARD_FINALIZERS = frozenset(("kubernetes", "orphan", "foregroundDeletion"))
_CONDITION_REASON_FORMAT = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_CONDITION_REASON = re.compile(_CONDITION_REASON_FORMAT)

_KEEP_MAX = 320
"""Longer texts than any valid key are judged anew each time: clients do not fill our memory."""

# Keys and values come again and again; the verdict on each is kept.
_known_key = lru_cache(maxsize=4096)(names.qualified_name)
_known_value = lru_cache(maxsize=4096)(names.label_value)


def _key_problems(key: str) -> list[str]:
    return _known_key(key) if len(key) <= _KEEP_MAX else names.qualified_name(key)


def _value_problems(value: str) -> list[str]:
    return _known_value(value) if len(value) <= _KEEP_MAX else names.label_value(value)


def each_invalid(path: str, value: Any, messages: Iterable[str]) -> list[FieldError]:
    """One error per message, all about the same value."""
    return [invalid(path, value, message) for message in messages]


def name_is_subdomain(name: str, prefix: bool) -> list[str]:
    return names.dns1123_subdomain(names.mask_trailing_dash(name) if prefix else name)


def name_is_label(name: str, prefix: bool) -> list[str]:
    return names.dns1123_label(names.mask_trailing_dash(name) if prefix else name)


def name_is_path_segment(name: str, prefix: bool) -> list[str]:
    return names.path_segment_prefix(name) if prefix else names.path_segment_name(name)


def validate_object_meta(
    metadata: Mapping[str, Any],
    namespaced: bool,
    name_rule: MetaNameRule,
    path: str = "metadata",
    *,
    kube_finalizers: bool = False,
) -> list[FieldError]:
    """Metadata on its own. Core kinds also want finalizers qualified (`kube_finalizers`)."""
    name, generate_name = metadata.get("name"), metadata.get("generateName")
    errors: list[FieldError] = []
    if generate_name:
        errors += each_invalid(
            f"{path}.generateName", generate_name, name_rule(generate_name, True)
        )
    if not name:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    else:
        errors += each_invalid(f"{path}.name", name, name_rule(name, False))
    errors += _namespace_errors(metadata.get("namespace"), namespaced, f"{path}.namespace")
    generation = metadata.get("generation") or 0
    if generation < 0:
        why = "must be greater than or equal to 0"
        errors.append(invalid(f"{path}.generation", generation, why))
    errors += validate_labels(metadata.get("labels"), f"{path}.labels")
    errors += validate_annotations(metadata.get("annotations"), f"{path}.annotations")
    errors += _owner_errors(metadata.get("ownerReferences"), f"{path}.ownerReferences")
    finalizers = metadata.get("finalizers")
    if finalizers:
        errors += _finalizers_errors(finalizers, f"{path}.finalizers")
    errors += _managed_fields_errors(metadata.get("managedFields"), f"{path}.managedFields")
    if kube_finalizers and finalizers:
        errors += _kube_finalizers_errors(finalizers, f"{path}.finalizers")
    return errors


def is_plain(metadata: Mapping[str, Any], namespaced: bool) -> bool:
    """Whether metadata is as it nearly always is, so that there is nothing to find fault with.

    The quick way to no errors: False says nothing.
    """
    namespace = metadata.get("namespace")
    if namespaced is not bool(namespace) or (namespace and names.dns1123_label(namespace)):
        return False
    if metadata.get("generateName") or names.dns1123_subdomain(metadata.get("name") or ""):
        return False
    if (metadata.get("generation") or 0) < 0 or not _has_plain_links(metadata):
        return False
    return _has_plain_maps(metadata) and all(
        map(_is_plain_entry, metadata.get("managedFields", ()))
    )


def _has_plain_links(metadata: Mapping[str, Any]) -> bool:
    """At most one owner, and finalizers with a domain: as controllers write them."""
    owners, finalizers = metadata.get("ownerReferences"), metadata.get("finalizers")
    if owners and (len(owners) > 1 or _one_owner_errors(owners[0], "")):
        return False
    if not finalizers:
        return True
    return not any("/" not in one or _key_problems(one) for one in finalizers)


def _has_plain_maps(metadata: Mapping[str, Any]) -> bool:
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    if labels:
        for key, value in labels.items():
            if _key_problems(key) or _value_problems(value):
                return False
    if annotations:
        size = 0
        for key, value in annotations.items():
            if _key_problems(key.lower()):
                return False
            size += 4 * (len(key) + len(value))  # UTF-8 needs at most four bytes for each
        return size <= ANNOTATIONS_MAX
    return True


def _is_plain_entry(entry: Mapping[str, Any]) -> bool:
    return (
        entry.get("operation") in {"Update", "Apply"}
        and entry.get("fieldsType", "FieldsV1") == "FieldsV1"
        and len(entry.get("subresource", "")) < 64
        and len(entry.get("manager", "")) < 32
        and entry.get("manager", "").isprintable()
    )


def validate_object_meta_update(
    new: Mapping[str, Any],
    old: Mapping[str, Any],
    path: str = "metadata",
    *,
    kube_finalizers: bool = False,
) -> list[FieldError]:
    """What may not change, and what must hold again after a change."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        errors += _no_new_finalizers(
            new.get("finalizers"), old.get("finalizers"), f"{path}.finalizers"
        )
    if not new.get("resourceVersion"):
        why = "must be specified for an update"
        errors.append(invalid(f"{path}.resourceVersion", new.get("resourceVersion") or "", why))
    generation = new.get("generation") or 0
    if generation < (old.get("generation") or 0):
        errors.append(invalid(f"{path}.generation", generation, "must not be decremented"))
    for field in ("name", "namespace", "uid"):
        if (new.get(field) or "") != (old.get(field) or ""):
            errors.append(invalid(f"{path}.{field}", new.get(field) or "", IMMUTABLE))
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(field) != old.get(field):
            errors.append(invalid(f"{path}.{field}", new.get(field), IMMUTABLE))
    errors += validate_labels(new.get("labels"), f"{path}.labels")
    errors += validate_annotations(new.get("annotations"), f"{path}.annotations")
    errors += _owner_errors(new.get("ownerReferences"), f"{path}.ownerReferences")
    errors += _managed_fields_errors(new.get("managedFields"), f"{path}.managedFields")
    finalizers = new.get("finalizers")
    if kube_finalizers and finalizers:
        errors += _kube_finalizers_errors(finalizers, f"{path}.finalizers")
    return errors


_FIXED = ("name", "namespace", "uid", "creationTimestamp")
_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")


def is_plain_change(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether no immutable metadata changed, and neither object is terminating."""
    if not new.get("resourceVersion"):
        return False
    for field in _FIXED:
        if new.get(field) != old.get(field):
            return False
    for field in _DELETION:
        if new.get(field) is not None or old.get(field) is not None:
            return False
    return (new.get("generation") or 0) >= (old.get("generation") or 0)


def _namespace_errors(namespace: str | None, namespaced: bool, path: str) -> list[FieldError]:
    if not namespaced:
        return [forbidden(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(path)]
    return each_invalid(path, namespace, names.dns1123_label(namespace))


def validate_labels(labels: Mapping[str, str] | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if labels:
        for key, value in labels.items():
            errors += each_invalid(path, key, _key_problems(key))
            errors += each_invalid(path, value, _value_problems(value))
            if len(errors) > MAX_FIELD_ERRORS:
                break
    return errors


def validate_label_key(key: str, path: str) -> list[FieldError]:
    return each_invalid(path, key, _key_problems(key))


def validate_annotations(annotations: Mapping[str, str] | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if annotations:
        size = 0
        for key, value in annotations.items():
            if len(errors) <= MAX_FIELD_ERRORS:
                errors += each_invalid(path, key, _key_problems(key.lower()))
            size += names.byte_length(key) + names.byte_length(value)
        if size > ANNOTATIONS_MAX:
            errors.append(too_long(path, ANNOTATIONS_MAX))
    return errors


def _owner_errors(owners: Sequence[Object] | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = ""
    shown: list[Object] = []
    for owner in owners or ():
        if len(errors) > MAX_FIELD_ERRORS:
            break
        errors += _one_owner_errors(owner, path)
        if owner.get("controller"):
            current = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                why = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {current}'
                )
                shown = shown or [_owner_json(o) for o in owners or ()]
                errors.append(invalid(path, shown, why))
            else:
                controller = current
    return errors


def _one_owner_errors(owner: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
    group, version = split_api_version(api_version)
    if not version:
        errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
    if not kind:
        errors.append(invalid(f"{path}.kind", kind, "must not be empty"))
    missing = [field for field in ("name", "uid") if not owner.get(field)]
    errors += [invalid(f"{path}.{field}", "", "must not be empty") for field in missing]
    if (group, version, kind) == ("", "v1", "Event"):
        why = "/v1, Kind=Event is disallowed from being an owner"
        errors.append(invalid(path, _owner_json(owner), why))
    return errors


def _owner_json(owner: Object) -> Object:
    out: Object = {field: owner.get(field, "") for field in ("apiVersion", "kind", "name", "uid")}
    for field in ("controller", "blockOwnerDeletion"):
        if owner.get(field) is not None:
            out[field] = owner[field]
    return out


def split_api_version(api_version: str) -> tuple[str, str]:
    """Group and version; both empty for what cannot be split."""
    parts = api_version.split("/")
    if len(parts) == 1:
        return "", parts[0]
    return (parts[0], parts[1]) if len(parts) == 2 else ("", "")


def _finalizers_errors(finalizers: Sequence[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for finalizer in finalizers:
        errors += validate_label_key(finalizer, path)
        if len(errors) > MAX_FIELD_ERRORS:
            break
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(path, list(finalizers), why))
    return errors


def _kube_finalizers_errors(finalizers: Sequence[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, finalizer in enumerate(finalizers):
        errors += kube_finalizer_errors(finalizer, f"{path}[{index}]")
        if len(errors) > MAX_FIELD_ERRORS:
            break
    return errors


def kube_finalizer_errors(finalizer: str, path: str) -> list[FieldError]:
    """Core kinds only take finalizers with a domain, or one of the standard ones."""
    if "/" in finalizer or finalizer in STANDARD_FINALIZERS:
        return []
    why = "name is neither a standard finalizer name nor is it fully qualified"
    return [invalid(path, finalizer, why)]


def _no_new_finalizers(
    new: Sequence[str] | None, old: Sequence[str] | None, path: str
) -> list[FieldError]:
    extra = sorted(set(new or ()) - set(old or ()))
    if not extra:
        return []
    shown = ", ".join(map(go_quote, extra[:MAX_FIELD_ERRORS]))
    why = "no new finalizers can be added if the object is being deleted, found new finalizers "
    return [forbidden(path, f"{why}[]string{{{shown}}}")]


def _managed_fields_errors(entries: Sequence[Object] | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(entries or ()):
        at = f"{path}[{index}]"
        operation = entry.get("operation", "")
        if operation not in {"Apply", "Update"}:
            errors.append(invalid(f"{at}.operation", operation, "must be `Apply` or `Update`"))
        fields_type = entry.get("fieldsType", "")
        if fields_type and fields_type != "FieldsV1":
            errors.append(invalid(f"{at}.fieldsType", fields_type, "must be `FieldsV1`"))
        errors += validate_field_manager(entry.get("manager", ""), f"{at}.manager")
        if names.byte_length(entry.get("subresource", "")) > SUBRESOURCE_NAME_MAX:
            errors.append(too_long(f"{at}.subresource", SUBRESOURCE_NAME_MAX))
        if len(errors) > MAX_FIELD_ERRORS:
            break
    return errors


def validate_field_manager(manager: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if names.byte_length(manager) > FIELD_MANAGER_MAX:
        errors.append(too_long(path, FIELD_MANAGER_MAX))
    if not manager.isprintable():
        position = 0
        for ch in manager:
            if not ch.isprintable():
                why = f"invalid character U+{ord(ch):04X} (at position {position})"
                errors.append(invalid(path, manager, why))
                if len(errors) > MAX_FIELD_ERRORS:
                    break
            position += len(ch.encode())
    return errors


def validate_label_selector(
    selector: Mapping[str, Any] | None, path: str, *, allow_invalid_values: bool = False
) -> list[FieldError]:
    """A LabelSelector (matchLabels, matchExpressions); absent is fine."""
    if not selector:
        return []
    errors = validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        errors += selector_operator_errors(expression, at)
        errors += validate_label_key(expression.get("key", ""), f"{at}.key")
        if allow_invalid_values:
            continue
        for number, value in enumerate(expression.get("values") or ()):
            errors += each_invalid(f"{at}.values[{number}]", value, _value_problems(value))
    return errors


def selector_operator_errors(expression: Mapping[str, Any], path: str) -> list[FieldError]:
    """Whether the operator is one, and goes with the values there are."""
    operator, values = expression.get("operator", ""), expression.get("values")
    if operator in {"In", "NotIn"}:
        if not values:
            why = "must be specified when `operator` is 'In' or 'NotIn'"
            return [required(f"{path}.values", why)]
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            return [forbidden(f"{path}.values", why)]
    else:
        return [invalid(f"{path}.operator", operator, "not a valid selector operator")]
    return []


def validate_conditions(conditions: Sequence[Object] | None, path: str) -> list[FieldError]:
    """metav1.Conditions, as kinds with the standard type have them."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions or ()):
        at = f"{path}[{index}]"
        kind = condition.get("type", "")
        if kind in seen:
            errors.append(duplicate(f"{at}.type", kind))
        seen.add(kind)
        errors += _condition_errors(condition, at)
    return errors


def _condition_errors(condition: Object, path: str) -> list[FieldError]:
    errors = validate_label_key(condition.get("type", ""), f"{path}.type")
    status = condition.get("status", "")
    if status not in {"True", "False", "Unknown"}:
        errors.append(not_supported(f"{path}.status", status, ("False", "True", "Unknown")))
    observed = condition.get("observedGeneration") or 0
    if observed < 0:
        why = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.observedGeneration", observed, why))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{path}.lastTransitionTime"))
    reason = condition.get("reason", "")
    if not reason:
        errors.append(required(f"{path}.reason"))
    else:
        if not _CONDITION_REASON.fullmatch(reason):
            errors.append(invalid(f"{path}.reason", reason, _CONDITION_REASON_ERROR))
        if names.byte_length(reason) > 1024:
            errors.append(too_long(f"{path}.reason", 1024))
    if names.byte_length(condition.get("message", "")) > 32 * 1024:
        errors.append(too_long(f"{path}.message", 32 * 1024))
    return errors


_CONDITION_REASON_ERROR = names.regex_error(
    "a condition reason must start with alphabetic character, optionally followed by a string "
    "of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
    _CONDITION_REASON_FORMAT,
    "my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB",
)  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Equal as upstream's semantic comparison has it: nothing and emptiness are the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one.get(key), other.get(key)) for key in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other or (_empty(one) and _empty(other))


def _empty(value: Any) -> bool:
    return value is None or value in ({}, [], "")


def unchanged(new: Any, old: Any, path: str) -> list[FieldError]:
    """An error if a field that must not change has changed."""
    return [] if same(new, old) else [invalid(path, new, IMMUTABLE)]
