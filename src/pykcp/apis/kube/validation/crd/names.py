"""Names, printer columns and subresources of a CRD."""

from __future__ import annotations

from pykcp.machinery import names
from pykcp.machinery.status import FieldError, invalid, required
from pykcp.types import Object

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MIXED = "may have mixed case, but should otherwise match: "


def names_errors(given: Object, path: str) -> list[FieldError]:
    """Plural, singular, kinds, short names and categories; what is missing is not judged."""
    errors: list[FieldError] = []
    for field in ("plural", "singular"):
        errors += _label_errors(given.get(field, ""), f"{path}.{field}")
    for field in ("kind", "listKind"):
        kind = given.get(field, "")
        messages = names.dns1035_label(kind.lower()) if kind else []
        if messages:
            errors.append(invalid(f"{path}.{field}", kind, _MIXED + ",".join(messages)))
    errors += _list_errors(given.get("shortNames"), f"{path}.shortNames")
    kind, list_kind = given.get("kind", ""), given.get("listKind", "")
    if kind and kind == list_kind:
        why = "kind and listKind may not be the same"
        errors.append(invalid(f"{path}.listKind", list_kind, why))
    return errors + _list_errors(given.get("categories"), f"{path}.categories")


def _label_errors(value: str, path: str) -> list[FieldError]:
    messages = names.dns1035_label(value) if value else []
    return [invalid(path, value, ",".join(messages))] if messages else []


def _list_errors(values: list[str] | None, path: str) -> list[FieldError]:
    found = [(i, value, names.dns1035_label(value)) for i, value in enumerate(values or ())]
    return [invalid(f"{path}[{i}]", value, ",".join(m)) for i, value, m in found if m]


def column_errors(column: Object, path: str) -> list[FieldError]:
    """One of `additionalPrinterColumns`."""
    errors: list[FieldError] = [] if column.get("name") else [required(f"{path}.name")]
    kind, form = column.get("type", ""), column.get("format", "")
    why = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        errors.append(required(f"{path}.type", why))
    elif kind not in _COLUMN_TYPES:
        errors.append(invalid(f"{path}.type", kind, why))
    if form and form not in _COLUMN_FORMATS:
        why = f"must be one of {','.join(_COLUMN_FORMATS)}"
        errors.append(invalid(f"{path}.format", form, why))
    json_path = column.get("jsonPath", "")
    if not json_path:
        return [*errors, required(f"{path}.JSONPath")]
    return errors + _simple_path_errors(json_path, f"{path}.JSONPath")


def _simple_path_errors(json_path: str, path: str) -> list[FieldError]:
    if json_path.startswith("."):
        return []
    return [invalid(path, json_path, "must be a simple json path starting with .")]


def subresource_errors(subresources: Object | None, path: str) -> list[FieldError]:
    """The paths of a scale subresource."""
    scale = (subresources or {}).get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        at, text = f"{path}.scale.{field}", scale.get(field, "")
        if not text:
            errors.append(required(at))
        else:
            errors += _path_under(text, (root,), at, f"should be a json path under {root}")
    selector = scale.get("labelSelectorPath")
    if selector:
        why = "should be a json path under either .spec or .status"
        at = f"{path}.scale.labelSelectorPath"
        errors += _path_under(selector, (".spec", ".status"), at, why)
    return errors


def _path_under(text: str, roots: tuple[str, ...], path: str, why: str) -> list[FieldError]:
    errors = _simple_path_errors(text, path)
    if errors or text.startswith(tuple(root + "." for root in roots)):
        return errors
    return [invalid(path, text, why)]
