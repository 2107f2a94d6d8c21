"""Kinds that are defined by a schema: kcp's own, CRDs and bound ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kube.validation.custom import custom_rules
from pykcp.apis.kube.validation.objectmeta import name_is_path_segment, validate_object_meta
from pykcp.apis.kube.validation.rules import Facts, KindRules, before_create, before_update
from pykcp.machinery.patch.gojson import in_document_order
from pykcp.machinery.schema.custom import CustomType, rules_blocked
from pykcp.machinery.schema.decode import DecodeError
from pykcp.machinery.schema.jsonpath import find as find_path
from pykcp.machinery.schema.jsonpath import parse as parse_path
from pykcp.machinery.status import BadRequest, FieldError, go_quote
from pykcp.registry.catalog.kinds import Verdict
from pykcp.registry.codec import copy, strip_cluster
from pykcp.registry.ownership import OwnedKind, relabelled
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.machinery.cel.rules.schema_rules import SchemaRules


class SchemaKind(OwnedKind):
    """One custom kind at one version."""

    create_on_update = False
    unconditional_update = False

    def __init__(
        self,
        definition: ResourceDefinition,
        version: str,
        custom_type: CustomType,
        preset: KindRules | None = None,
        converted: Callable[[Object, str], Object] | None = None,
    ) -> None:
        """`preset`: rules written by hand, for those of kcp's kinds that have some.

        `converted`: an object in another version, where that is more than another label.
        """
        super().__init__(definition, version, converted or relabelled)
        self._definition = definition
        self._version = version
        self.type = custom_type
        self._cel: SchemaRules | None = None
        self.has_rules = _holds_rules(custom_type)
        self._forgiven: list[str] = []
        """Violations of rules by what a write does not change: warnings, within one call."""
        served = definition.version(version)
        self._rules = preset or custom_rules(
            definition.namespaced,
            has_status="status" in {s.name for s in served.subresources},
            scale=None if definition.is_kubernetes else served.scale,
            check=self._errors,
            check_status=self._status_errors,
        )
        self._default: Callable[[Object], None] | None = None
        self._write_quantities: Callable[[Object], None] | None = None
        # Objects are selected by what all versions select by: they are stored only once.
        selectable = {f for v in definition.all_versions for f in v.selectable_fields}
        self._fields = {f: parse_path(f".{f}") for f in sorted(selectable)}
        self._unset: dict[str, str] = {}
        """What selectors find where a field is not set, if not nothing."""
        if definition.is_kubernetes and preset is None:
            self._extend()

    def _extend(self) -> None:
        """The rules of Kubernetes' own kinds, which know more than their schema."""
        from pykcp.apis.kube.workloads.definition import SELECTED_FROM, SELECTED_IF_UNSET
        from pykcp.apis.kube.workloads.quantities import write_quantities
        from pykcp.apis.kube.workloads.rules import workload_kind, workload_rules

        group, plural = self._definition.group, self._definition.plural
        status = self.type.schema.properties.get("status")
        fields = status.properties if status is not None else {}
        not_null = frozenset(name for name, schema in fields.items() if not schema.nullable)
        self._rules = workload_rules(self._rules, group, plural, not_null)
        self._default = workload_kind(group, plural).default_safely
        self._write_quantities = write_quantities(group, self._version, self._definition.kind)
        for name, path in SELECTED_FROM.items():
            if name in self._fields:
                self._fields[name] = parse_path(f".{path}")
        self._unset = {f: SELECTED_IF_UNSET[f] for f in self._fields if f in SELECTED_IF_UNSET}
        self.create_on_update = self._rules.create_on_update
        self.unconditional_update = self._rules.unconditional_update

    def decode(self, obj: Object, problems: list[str], raw: bytes | None = None) -> Object:
        decoded = self._decode(obj, problems, raw, keeps_nulls=False)
        if self._definition.is_kubernetes:
            self._name_type(decoded)
            if len(problems) > 1 and raw is not None:
                problems[:] = in_document_order(raw, problems)
        if self._default is not None:
            self._default(decoded)
        return decoded

    def _name_type(self, obj: Object) -> None:
        """Clients that know the type may leave its name out."""
        if not obj.get("kind"):
            obj["kind"] = self._definition.kind
        if not obj.get("apiVersion"):
            obj["apiVersion"] = self._definition.api_version(self._version)

    def decode_applied(self, obj: Object) -> Object:
        return self._decode(obj, [], None, keeps_nulls=True)

    def _decode(
        self, obj: Object, problems: list[str], raw: bytes | None, *, keeps_nulls: bool
    ) -> Object:
        strip_cluster(obj)
        try:
            decoded = self.type.decode(obj, problems, raw, keeps_nulls=keeps_nulls)
        except DecodeError as error:
            kind, version = self._definition.kind, go_quote(self._version)
            raise BadRequest(
                f"{kind} in version {version} cannot be handled as a {kind}: {error}"
            ) from error
        if self._write_quantities is not None:
            self._write_quantities(decoded)
        return decoded

    def _as_decoded(self, stored: Object, default: Callable[[Object], None]) -> Object:
        """An object that was stored before its kind had all of its defaults, as it would be now:
        otherwise every update would seem to change what it did not touch.
        """
        old = copy(stored)
        if self._write_quantities is not None:
            self._write_quantities(old)
        default(old)
        return old

    def before_create(self, obj: Object, facts: Facts) -> Verdict:
        verdict = before_create(self._rules, obj, facts)
        # A new object loses the status it came with, defaults and all; it is judged without.
        self.type.complete_status(obj)
        return verdict

    def before_update(self, new: Object, old: Object, subresource: str, facts: Facts) -> Verdict:
        rules = self._rules.subresources[subresource] if subresource else self._rules
        self._forgiven = []
        if self._default is not None:
            old = self._as_decoded(old, self._default)
        errors, warnings = before_update(rules, new, old, facts)
        self.type.complete_status(new)
        return errors, [*self._forgiven, *warnings]

    def selectable(self, obj: Object) -> dict[str, str]:
        found = dict(self._unset)
        for name, path in self._fields.items():
            values = [v for v in find_path(path, obj) if not isinstance(v, (dict, list))]
            if values and values[0] is not None:
                value = values[0]
                found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def _errors(self, new: Object, old: Object | None) -> list[FieldError]:
        errors = self.type.errors(new, old)
        errors += self.type.embedded_errors(new, _check_embedded)
        return errors + self._rule_errors(new, old, errors)

    def _status_errors(self, new: Object, old: Object | None) -> list[FieldError]:
        assert old is not None
        errors = self.type.status_errors(new, old)
        if self._definition.is_kubernetes:
            # Kubernetes looks for elements that repeat in some lists of its kinds, in none of a status.
            errors = [error for error in errors if error.reason != "FieldValueDuplicate"]
        return errors + self._rule_errors(new, old, errors)

    def _rule_errors(
        self, new: Object, old: Object | None, errors: list[FieldError]
    ) -> list[FieldError]:
        if not self.has_rules:
            return []
        blocked = rules_blocked(errors, has_name=bool(new["metadata"].get("name")))
        if blocked is not None:
            return [blocked]
        seen = _AS_RULES_SEE_IT.get(self._definition.strategy)
        return self._rule_set().validate(seen(new) if seen else new, old, warnings=self._forgiven)

    def _rule_set(self) -> SchemaRules:
        if self._cel is None:
            from pykcp.machinery.cel.rules.schema_rules import SchemaRules

            self._cel = SchemaRules(self.type.schema)
        return self._cel

    def is_costly(self, size: int) -> bool:
        """Whether the rules may take more than some milliseconds on an object of this size."""
        if not self.has_rules:
            return False
        from pykcp.machinery.cel.cost.expense import may_be_expensive

        return may_be_expensive(self._rule_set(), size)


def _without_empty_claim_keys(binding: Object) -> Object:
    """kcp's admission drops empty strings of claims before rules see them.

    So a claim without an identity, or on the core group, is new to the rule that selectors
    do not change; only claims on other exports' resources keep theirs.
    """
    spec = binding.get("spec") or {}
    claims = spec.get("permissionClaims")
    if not claims:
        return binding
    shown = [{key: value for key, value in claim.items() if value != ""} for claim in claims]
    return {**binding, "spec": {**spec, "permissionClaims": shown}}


_AS_RULES_SEE_IT = {"apibindings.apis.kcp.io": _without_empty_claim_keys}


def _check_embedded(metadata: Object, has_namespace: bool, path: str) -> list[FieldError]:
    return validate_object_meta(metadata, has_namespace, name_is_path_segment, path)


def _holds_rules(custom_type: CustomType) -> bool:
    """Whether any node of the schema has CEL rules; only then is the compiler imported."""
    waiting, seen = [custom_type.schema], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.rules:
            return True
        waiting += node.properties.values()
        waiting += [n for n in (node.items, node.additional) if n is not None]
    return False
