"""The rules of a kind (defaults, preparation, validation) and the order in which they run.

A `KindRules` is the strategy of a kind: functions with no-op defaults. `before_create` and
`before_update` are upstream's sequences around them: prepare, validate, warn, canonicalise.
Rules change the object they are given and never keep it; the old object is only read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from pykcp.apis.kube.validation.objectmeta import (
    MetaNameRule,
    is_plain,
    is_plain_change,
    name_is_path_segment,
    name_is_subdomain,
    validate_object_meta,
    validate_object_meta_update,
)
from pykcp.machinery.meta import metadata, mutable_metadata
from pykcp.machinery.status import FieldError
from pykcp.types import Object


@dataclass(frozen=True, slots=True)
class CelUse:
    """What a CEL expression is for, which decides what it sees and must return."""

    purpose: str
    """matchCondition, validation, messageExpression, auditAnnotation, variable, jsonPatch,
    applyConfiguration."""
    has_params: bool = False
    has_authorizer: bool = True
    has_patch_types: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    """Names and expressions of the variables declared before."""
    stored: bool = False
    """It stood in the old object already."""


CelCheck = Callable[[str, CelUse], str | None]
"""Compiles an expression; None, or what is wrong with it."""


class SchemaChecks(Protocol):
    """Checks of a CRD's schemas and CEL rules that need other packages."""

    def value(self, schema: Object, value: Any, path: str) -> list[FieldError]:
        """Whether a default is a valid value of its schema (OpenAPI validation and CEL rules)."""

    def rules(
        self, schema: Object, path: str, *, stored: frozenset[str], unchanged: bool
    ) -> list[FieldError]:
        """Whether the CEL rules of a whole structural schema compile and are cheap enough.

        `stored` are rules the old object had; the cost of single rules is not judged again
        when the whole schema is `unchanged`.
        """


class Facts(NamedTuple):
    """What rules may know of the request besides the objects."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = MappingProxyType({})
    now: float = 0.0
    """Seconds since 1970."""
    new_uid: Callable[[], str] = str
    check_cel: CelCheck | None = None
    """None: expressions are not compiled here."""
    schema_checks: SchemaChecks | None = None
    """None: a CRD's defaults and CEL rules are not judged here."""


NO_FACTS = Facts()


def _nothing(*_: Any) -> None:
    return None


def _no_errors(*_: Any) -> list[FieldError]:
    return []


def _no_warnings(*_: Any) -> list[str]:
    return []


def _no_fields(_: Object) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class KindRules:
    """The strategy of one kind, or of one of its subresources."""

    namespaced: bool = False
    default: Callable[[Object], None] = _nothing
    """Fill in static defaults, in place; runs on every decoded object."""
    prepare_for_create: Callable[[Object, Facts], None] = _nothing
    prepare_for_update: Callable[[Object, Object, Facts], None] = _nothing
    """New, old."""
    validate: Callable[[Object, Facts], list[FieldError]] = _no_errors
    validate_update: Callable[[Object, Object, Facts], list[FieldError]] = _no_errors
    """New, old; complete: it includes what `validate` checks where upstream does so."""
    body: Callable[[Object, Object | None, Facts], list[FieldError]] | None = None
    """New, old (None on create): what the two above check besides metadata.

    Asked instead of them when metadata is plainly in order, which nearly every time it is; a
    kind without it is always asked the long way.
    """
    warnings: Callable[[Object, Object | None, Facts], list[str]] = _no_warnings
    """New, old (None on create)."""
    canonicalize: Callable[[Object], None] = _nothing
    """The last touch after validation."""
    field_labels: tuple[str, ...] | None = None
    """Selectable fields besides the defaults; None: the kind registered none of its own."""
    selectable: Callable[[Object], dict[str, str]] = _no_fields
    """Values of selectable fields, without metadata.name and metadata.namespace."""
    subresources: Mapping[str, KindRules] = field(default_factory=dict)
    """How updates of status, finalize or approval differ."""
    error_group: str | None = None
    """The group that errors name, where it is not the kind's own."""
    create_on_update: bool = False
    unconditional_update: bool = True


def before_create(
    rules: KindRules, obj: Object, facts: Facts = NO_FACTS
) -> tuple[list[FieldError], list[str]]:
    """Prepare and check a new object; errors, else warnings. The object must have its name."""
    rules.prepare_for_create(obj, facts)
    if rules.body is not None and is_plain(metadata(obj), rules.namespaced):
        errors = rules.body(obj, None, facts)
    else:
        errors = rules.validate(obj, facts)
        if not errors:
            errors = validate_object_meta(metadata(obj), rules.namespaced, name_is_path_segment)
    if errors:
        return errors, []
    warnings = rules.warnings(obj, None, facts)
    rules.canonicalize(obj)
    return [], warnings


def before_update(
    rules: KindRules, new: Object, old: Object, facts: Facts = NO_FACTS
) -> tuple[list[FieldError], list[str]]:
    """Prepare and check a changed object; errors, else warnings.

    `rules` are those of the subresource when one is written to.
    """
    carry_system_metadata(new, old)
    rules.prepare_for_update(new, old, facts)
    fresh, stored = metadata(new), metadata(old)
    plain = is_plain_change(fresh, stored) and is_plain(fresh, rules.namespaced)
    if plain and rules.body is not None:
        errors = rules.body(new, old, facts)
    else:
        errors = validate_object_meta(fresh, rules.namespaced, name_is_path_segment)
        errors += validate_object_meta_update(fresh, stored)
        errors += rules.validate_update(new, old, facts)
    if errors:
        return errors, []
    warnings = rules.warnings(new, old, facts)
    rules.canonicalize(new)
    return [], warnings


def carry_system_metadata(new: Object, old: Object) -> None:
    """Generation, uid, creation and deletion are the server's: clients cannot change them."""
    fresh, stored = mutable_metadata(new), metadata(old)
    _carry(fresh, stored, "generation", always=True)
    _carry(fresh, stored, "uid", always=False)
    if stored.get("creationTimestamp"):
        fresh["creationTimestamp"] = stored["creationTimestamp"]
    if stored.get("deletionTimestamp"):
        fresh["deletionTimestamp"] = stored["deletionTimestamp"]
    if stored.get("deletionGracePeriodSeconds") is not None:
        _carry(fresh, stored, "deletionGracePeriodSeconds", always=False)


def _carry(fresh: Object, stored: Mapping[str, Any], name: str, *, always: bool) -> None:
    if not always and fresh.get(name) not in {None, ""}:
        return
    if stored.get(name) is not None:
        fresh[name] = stored[name]
    else:
        fresh.pop(name, None)


def keep(new: Object, old: Object, *names: str) -> None:
    """Put back top-level fields which this request may not change."""
    for name in names:
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)


def keep_metadata_for_status(new: Object, old: Object) -> None:
    """A status update that may not touch metadata: only managedFields follow the request."""
    fresh, stored = metadata(new), metadata(old)
    kept = {name: stored[name] for name in stored if name != "managedFields"}
    if "managedFields" in fresh:
        kept["managedFields"] = fresh["managedFields"]
    if fresh.get("resourceVersion"):
        kept["resourceVersion"] = fresh["resourceVersion"]
    new["metadata"] = kept


def bump_generation(new: Object, old: Object) -> None:
    """One more than the old object's, for a change of what is desired."""
    mutable_metadata(new)["generation"] = (metadata(old).get("generation") or 0) + 1


def set_generation(obj: Object, generation: int = 1) -> None:
    mutable_metadata(obj)["generation"] = generation


def metadata_rules(namespaced: bool, name_rule: MetaNameRule = name_is_subdomain) -> KindRules:
    """Rules of a kind of which only the metadata is checked here."""
    return KindRules(
        namespaced=namespaced,
        validate=lambda obj, _: validate_object_meta(metadata(obj), namespaced, name_rule),
        validate_update=lambda new, old, _: validate_object_meta_update(
            metadata(new), metadata(old)
        ),
    )
