"""Kinds of Kubernetes itself: typed decoding and hand-written rules."""

from __future__ import annotations

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kube.validation.rules import Facts, KindRules, before_create, before_update
from pykcp.registry.kinds import Verdict
from pykcp.types import Object


class NativeKind:
    def __init__(self, definition: ResourceDefinition, version: str, rules: KindRules) -> None:
        self._definition = definition
        self._version = version
        self._rules = rules
        self.create_on_update = rules.create_on_update
        self.unconditional_update = rules.unconditional_update
        self.selectable = rules.selectable

    def decode(self, obj: Object, problems: list[str]) -> Object:
        self._rules.default(obj)
        return obj

    def before_create(self, obj: Object, facts: Facts) -> Verdict:
        return before_create(self._rules, obj, facts)

    def before_update(self, new: Object, old: Object, subresource: str, facts: Facts) -> Verdict:
        rules = self._rules.subresources.get(subresource, self._rules) if subresource else self._rules
        return before_update(rules, new, old, facts)

    def manage_update(self, live, new, manager, subresource, now) -> None:
        pass
