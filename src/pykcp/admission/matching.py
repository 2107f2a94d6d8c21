"""Which writes a webhook or a policy is for: rules, selectors, equivalent versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pykcp.admission.subject import Subject
from pykcp.machinery.labels import EVERYTHING, LabelSelector, from_label_selector_in_steps
from pykcp.machinery.status import StatusError
from pykcp.registry.resource import Resource
from pykcp.steps import Steps, at_once
from pykcp.types import Object

NamespaceLabels = Callable[[Subject], "dict[str, str] | None"]
"""The labels of the request's namespace; NotFound if there is none."""
Equivalents = Callable[[Subject], Sequence[Resource]]
"""Other resources that show the same objects."""


@dataclass(frozen=True, slots=True)
class MatchRule:
    """One of `rules`, `resourceRules` or `excludeResourceRules`."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """Resource and subresource, each or both `*`."""
    scope: str = "*"
    names: frozenset[str] = frozenset()

    def matches(self, subject: Subject, resource: Resource) -> bool:
        """Whether it is for this request, if it were for `resource`."""
        return (
            self._in_scope(subject)
            and _has(self.operations, subject.operation)
            and _has(self.groups, resource.group)
            and _has(self.versions, resource.version)
            and self._has_resource(resource.plural, subject.subresource)
        )

    def names_it(self, subject: Subject) -> bool:
        return not self.names or subject.name in self.names

    def _in_scope(self, subject: Subject) -> bool:
        if self.scope == "*":
            return True
        namespaced = bool(subject.namespace) and not subject.is_namespace
        return namespaced if self.scope == "Namespaced" else not namespaced

    def _has_resource(self, plural: str, subresource: str) -> bool:
        return any(
            name in ("*", plural) and sub in ("*", subresource) for name, sub in self.resources
        )


def _has(values: frozenset[str], wanted: str) -> bool:
    return wanted in values or "*" in values


def parse_rule(rule: Object) -> MatchRule:
    resources = []
    for text in rule.get("resources") or ():
        name, _, sub = text.partition("/")
        resources.append((name, sub))
    return MatchRule(
        frozenset(rule.get("operations") or ()),
        frozenset(rule.get("apiGroups") or ()),
        frozenset(rule.get("apiVersions") or ()),
        tuple(resources),
        rule.get("scope") or "*",
        frozenset(rule.get("resourceNames") or ()),
    )


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a webhook, a policy or a binding is for."""

    rules: tuple[MatchRule, ...]
    excluded: tuple[MatchRule, ...]
    namespaces: LabelSelector
    objects: LabelSelector
    has_equivalents: bool
    matches_without_rules: bool

    def find(
        self, subject: Subject, labels: NamespaceLabels, equivalents: Equivalents
    ) -> Resource | None:
        """The resource it is to be called for, or None. NotFound if the namespace is missing.

        A missing namespace only matters when all else matches.
        """
        missing: StatusError | None = None
        try:
            if not self._selects_namespace(subject, labels):
                return None
        except StatusError as error:
            missing = error
        if not self._selects_object(subject):
            return None
        if self.excluded and self._by_rules(self.excluded, subject, equivalents) is not None:
            return None
        if self.rules or not self.matches_without_rules:
            found = self._by_rules(self.rules, subject, equivalents)
        else:
            found = subject.resource
        if found is not None and missing is not None:
            raise missing
        return found

    def _selects_namespace(self, subject: Subject, labels: NamespaceLabels) -> bool:
        if self.namespaces.empty or not (
            subject.namespace or subject.resource.plural == "namespaces"
        ):
            return True
        return self.namespaces.matches(labels(subject))

    def _selects_object(self, subject: Subject) -> bool:
        if self.objects.empty:
            return True
        request = subject.request
        if request.has_object and self.objects.matches(request.metadata.get("labels")):
            return True
        old = request.old_metadata
        return bool(old) and self.objects.matches(old.get("labels"))

    def _by_rules(
        self, rules: tuple[MatchRule, ...], subject: Subject, equivalents: Equivalents
    ) -> Resource | None:
        for rule in rules:
            if rule.matches(subject, subject.resource) and rule.names_it(subject):
                return subject.resource
        if not self.has_equivalents or not any(
            _has(rule.operations, subject.operation) for rule in rules
        ):
            return None
        others = equivalents(subject)
        for rule in rules:
            for other in others:
                if rule.matches(subject, other) and rule.names_it(subject):
                    return other
        return None


def parse_criteria(holder: Object, rules: str = "resourceRules") -> Criteria:
    """Of a webhook (`rules`) or of matchConstraints and matchResources (`resourceRules`)."""
    return at_once(parse_criteria_in_steps(holder, rules))


def parse_criteria_in_steps(holder: Object, rules: str = "resourceRules") -> Steps[Criteria]:
    return Criteria(
        (yield from _rules(holder.get(rules))),
        (yield from _rules(holder.get("excludeResourceRules"))),
        (yield from _selector(holder.get("namespaceSelector"))),
        (yield from _selector(holder.get("objectSelector"))),
        holder.get("matchPolicy", "Equivalent") == "Equivalent",
        matches_without_rules=rules == "resourceRules",
    )


def _rules(rules: Sequence[Object] | None) -> Steps[tuple[MatchRule, ...]]:
    found: list[MatchRule] = []
    for rule in rules or ():
        found.append(parse_rule(rule))
        yield
    return tuple(found)


def _selector(selector: Any) -> Steps[LabelSelector]:
    if not selector:
        return EVERYTHING
    return (yield from from_label_selector_in_steps(selector))
