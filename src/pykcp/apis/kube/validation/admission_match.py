"""What webhooks and admission policies are called for: rules, selectors, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pykcp.apis.kube.validation.objectmeta import (
    each_invalid,
    validate_label_key,
    validate_label_selector,
)
from pykcp.apis.kube.validation.rules import CelUse, Facts
from pykcp.machinery import names
from pykcp.machinery.status import (
    MAX_FIELD_ERRORS,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from pykcp.types import Object

FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_CONDITIONS_MAX = 64
STATIC_SUFFIX = ".static.k8s.io"


def default_rule(rule: Object) -> None:
    if rule.get("scope") is None:
        rule["scope"] = "*"


def default_match_resources(match: Object | None) -> None:
    if match is None:
        return
    default_selection(match)
    for rule in (*(match.get("resourceRules") or ()), *(match.get("excludeResourceRules") or ())):
        default_rule(rule)


def default_selection(holder: Object) -> None:
    """A match policy and two selectors that select everything."""
    if holder.get("matchPolicy") is None:
        holder["matchPolicy"] = "Equivalent"
    for field in ("namespaceSelector", "objectSelector"):
        if holder.get(field) is None:
            holder[field] = {}


def name_warnings(name: str) -> list[str]:
    if not name.endswith(STATIC_SUFFIX):
        return []
    why = "are reserved for static manifest-based configurations and cannot be managed via the API"
    return [f'metadata.name: names ending with "{STATIC_SUFFIX}" {why}']


def choice_errors(value: str | None, allowed: Sequence[str], path: str) -> list[FieldError]:
    """An optional value that must be one of a few."""
    if value is None or value in allowed:
        return []
    return [not_supported(path, value, allowed)]


def rule_errors(rule: Object, path: str) -> list[FieldError]:
    """Operations, groups, versions, resources and scope of one rule."""
    operations = rule.get("operations") or []
    errors: list[FieldError] = [] if operations else [required(f"{path}.operations")]
    errors += _lonely_wildcard(operations, f"{path}.operations", "operations")
    errors += [
        not_supported(f"{path}.operations[{index}]", operation, OPERATIONS)
        for index, operation in enumerate(operations)
        if operation not in OPERATIONS
    ]
    groups, versions = rule.get("apiGroups") or [], rule.get("apiVersions") or []
    errors += [] if groups else [required(f"{path}.apiGroups")]
    errors += _lonely_wildcard(groups, f"{path}.apiGroups", "API groups")
    errors += [] if versions else [required(f"{path}.apiVersions")]
    errors += _lonely_wildcard(versions, f"{path}.apiVersions", "API versions")
    errors += [
        required(f"{path}.apiVersions[{index}]")
        for index, version in enumerate(versions)
        if not version
    ]
    errors += _resources_errors(rule.get("resources") or [], f"{path}.resources")
    return errors + choice_errors(rule.get("scope"), _SCOPES, f"{path}.scope")


def _lonely_wildcard(values: Sequence[str], path: str, what: str) -> list[FieldError]:
    if len(values) < 2 or "*" not in values:
        return []
    return [invalid(path, list(values), f"if '*' is present, must not specify other {what}")]


def _resources_errors(resources: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = [] if resources else [required(path)]
    whole: set[str] = set()
    """Resources of which all subresources were named."""
    everywhere: set[str] = set()
    """Subresources that were named of all resources."""
    plain = False
    for index, text in enumerate(resources):
        at = f"{path}[{index}]"
        if not text:
            errors.append(required(at))
            continue
        resource, slash, sub = text.partition("/")
        if not slash:
            plain = text != "*"
            continue
        if resource in whole:
            errors.append(
                invalid(at, text, f"if '{resource}/*' is present, must not specify {text}")
            )
        if sub in everywhere:
            errors.append(invalid(at, text, f"if '*/{sub}' is present, must not specify {text}"))
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        why = "if '*/*' is present, must not specify other resources"
        errors.append(invalid(path, resources, why))
    if "*" in resources and plain:
        why = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, why))
    return errors


def match_resources_errors(match: Object | None, path: str) -> list[FieldError]:
    """The constraints of a policy or a binding."""
    if match is None:
        return []
    policy = match.get("matchPolicy")
    errors: list[FieldError] = [] if policy is not None else [required(f"{path}.matchPolicy")]
    errors += choice_errors(policy, MATCH_POLICIES, f"{path}.matchPolicy")
    for field in ("namespaceSelector", "objectSelector"):
        selector = match.get(field)
        if selector is None:
            errors.append(required(f"{path}.{field}"))
        errors += validate_label_selector(selector, f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            errors += _named_rule_errors(rule, f"{path}.{field}[{index}]")
    return errors


def operations_errors(match: Object, path: str) -> list[FieldError]:
    """A mutation can not happen on delete."""
    return [
        not_supported(path, operation, MUTATING_OPERATIONS)
        for rule in match.get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in MUTATING_OPERATIONS
    ]


def _named_rule_errors(rule: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        at = f"{path}.resourceNames[{index}]"
        errors += each_invalid(at, name, names.path_segment_name(name))
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
        if len(errors) > MAX_FIELD_ERRORS:
            break
    return errors + rule_errors(rule, path)


@dataclass(frozen=True, slots=True)
class Expressions:
    """How the CEL expressions of one object are to be compiled."""

    facts: Facts
    has_params: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    known: frozenset[str] = frozenset()
    """Expressions the old object has: they may use what newer versions forbid."""

    def before(self, index: int) -> Expressions:
        """As the variable at this place sees it: only the ones before it."""
        return replace(self, variables=self.variables[:index])

    def errors(self, expression: str, purpose: str, path: str, **more: Any) -> list[FieldError]:
        """What is wrong with an expression, if expressions are compiled at all."""
        check = self.facts.check_cel
        if check is None:
            return []
        use = CelUse(
            purpose=purpose,
            has_params=self.has_params,
            variables=self.variables,
            stored=expression in self.known,
            **more,
        )
        problem = check(expression, use)
        return [] if problem is None else [invalid(path, expression, problem)]


def match_conditions_errors(
    conditions: Sequence[Object] | None, expressions: Expressions, path: str
) -> list[FieldError]:
    found = conditions or ()
    errors: list[FieldError] = []
    if len(found) > _CONDITIONS_MAX:
        errors.append(too_many(path, len(found), _CONDITIONS_MAX))
    seen: set[str] = set()
    for index, condition in enumerate(found):
        at = f"{path}[{index}]"
        name = condition.get("name", "")
        expression = condition.get("expression", "").strip()
        if not expression:
            errors.append(required(f"{at}.expression"))
        else:
            errors += expressions.errors(expression, "matchCondition", f"{at}.expression")
        if not name:
            errors.append(required(f"{at}.name"))
            continue
        errors += validate_label_key(name, f"{at}.name")
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen.add(name)
    return errors
