"""The options of writes: checked before anything is read."""

from __future__ import annotations

from pykcp.machinery.status import (
    FieldError,
    Invalid,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from pykcp.server.call import Call

_VALIDATIONS = ("", "Ignore", "Warn", "Strict")
_MAX_MANAGER = 128


def check_write_options(call: Call, kind: str, *, is_apply: bool = False) -> None:
    """dryRun, fieldManager, fieldValidation and force, with upstream's refusals in its order."""
    query = call.info.query
    if not query and not is_apply:
        return
    manager = call.info.param("fieldManager")
    errors: list[FieldError] = []
    if is_apply and not manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    if kind == "PatchOptions" and not is_apply and "force" in query:
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    errors += manager_errors(manager) + dry_run_errors(query.get("dryRun", []))
    validation = call.info.param("fieldValidation")
    if validation not in _VALIDATIONS:
        errors.append(
            not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn"))
        )
    if errors:
        raise Invalid.fields("meta.k8s.io", kind, "", errors)


def dry_run_errors(values: list[str]) -> list[FieldError]:
    return [not_supported("dryRun", values, ("All",))] if set(values) - {"All"} else []


def manager_errors(manager: str) -> list[FieldError]:
    errors = []
    if len(manager.encode()) > _MAX_MANAGER:
        errors.append(too_long("fieldManager", _MAX_MANAGER))
    position = 0  # in octets
    for character in manager:
        if not character.isprintable():
            errors.append(
                invalid(
                    "fieldManager",
                    manager,
                    f"invalid character {_code_point(character)} (at position {position})",
                )
            )
        position += len(character.encode("utf-8", "replace"))
    return errors


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"
