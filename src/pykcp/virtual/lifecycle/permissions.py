"""The policy rules of a workspace type, compiled: there may be tens of thousands of them."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.rule_index import RuleIndex
from pykcp.auth.authz.rules import Match, PolicyRule
from pykcp.steps import Steps
from pykcp.types import Object

_FEW = 32
"""Rules that are looked through one by one."""
_GRANTED = (Match.FOR_THIS_NAME, Match.FOR_ALL_NAMES)


class Permissions:
    def __init__(self, rules: Sequence[PolicyRule], index: RuleIndex | None, size: int) -> None:
        self._rules, self._index = rules, index
        self.size = size
        """What it costs to keep them: rules and values."""

    def denial(self, attributes: Attributes) -> str | None:
        """Why the rules do not allow a request; None if they do."""
        resource = attributes.resource
        if attributes.subresource:
            resource = f"{resource}/{attributes.subresource}"
        if self._allow(attributes, resource):
            return None
        if not attributes.is_resource:
            return f"no rule allows {attributes.verb} on {attributes.path}"
        text = f"no rule allows {attributes.verb} on {attributes.group or 'core'}/{resource}"
        if attributes.name:
            text += f" ({attributes.name})"
        if attributes.namespace:
            text += f" in namespace {attributes.namespace}"
        return text

    def _allow(self, attributes: Attributes, resource: str) -> bool:
        if self._index is not None:
            return self._index.match(attributes, resource) in _GRANTED
        return any(rule.match(attributes, resource) in _GRANTED for rule in self._rules)


def compiled(rules: Sequence[Object]) -> Steps[Permissions]:
    distinct: dict[bytes, PolicyRule] = {}
    size = 1
    for rule in rules:
        text = orjson.dumps(rule)
        if text not in distinct:
            made = distinct[text] = PolicyRule.from_json(rule)
            size += 1 + sum(map(len, (made.verbs, made.api_groups, made.resources)))
            size += len(made.names) + len(made.urls)
        yield
    if len(distinct) <= _FEW:
        return Permissions(tuple(distinct.values()), None, size)
    index = RuleIndex(len(distinct))
    for made in distinct.values():
        index.add(made)
        yield
    return Permissions((), index, size)
