"""Thousands of rules, by the values that they allow.

A set of rules is an integer with a bit for each. Which rules allow a verb, a group, a resource
and a name is then the intersection of four such sets, however many rules there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.rules import Match, PolicyRule


class _Axis:
    """One of the lists of rules: which of them have a value in it, or allow every value."""

    __slots__ = ("_by_value", "_everything", "_octets", "_wide", "_wild")

    def __init__(self, most: int) -> None:
        self._octets = (most + 7) // 8
        self._by_value: dict[str, list[int]] = {}
        self._wide: dict[str, int] = {}
        """Sets of the values that many rules have, once they were asked for."""
        self._wild: list[int] = []
        self._everything: int | None = 0

    def add(self, number: int, values: Iterable[str]) -> None:
        by_value = self._by_value
        for value in values:
            by_value.setdefault(value, []).append(number)

    def add_wild(self, number: int) -> None:
        self._wild.append(number)
        self._everything = None

    def everything(self) -> int:
        """The rules that allow every value."""
        if self._everything is None:
            self._everything = _bits(self._wild, self._octets)
        return self._everything

    def exactly(self, value: str) -> int:
        """The rules that have this value."""
        known = self._wide.get(value)
        if known is not None:
            return known
        numbers = self._by_value.get(value)
        if numbers is None:
            return 0
        found = _bits(numbers, self._octets)
        if len(numbers) * 8 >= self._octets:  # the set is no larger than the list
            self._wide[value] = found
        return found

    def allowing(self, value: str) -> int:
        return self.everything() | self.exactly(value)


def _bits(numbers: Iterable[int], octets: int) -> int:
    found = bytearray(octets)
    for number in numbers:
        found[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(found, "little")


class Values(NamedTuple):
    """The values that will be asked for, where they are known: nothing else is indexed then."""

    verbs: set[str]
    groups: set[str]
    resources: set[str]
    """And for every `a/b` also `*/b`."""
    names: set[str]
    urls: set[str]


class RuleIndex:
    """The sets of rules that allow something. All rules are added before one is asked for."""

    __slots__ = (
        "_count", "_groups", "_lengths", "_names", "_prefixes", "_resources", "_urls", "_verbs",
    )  # fmt: skip

    def __init__(self, most: int) -> None:
        """An index of so many rules at most."""
        self._count = 0
        self._verbs, self._groups, self._resources = _Axis(most), _Axis(most), _Axis(most)
        self._names, self._urls, self._prefixes = _Axis(most), _Axis(most), _Axis(most)
        self._lengths: set[int] = set()
        """Of the prefixes."""

    def add(self, rule: PolicyRule, asked: Values | None = None) -> None:
        """Add a rule, unless it allows nothing of what will be asked for."""
        lists: list[Iterable[str]] = [rule.verbs, rule.api_groups, rule.resources, rule.names]
        wild = ["*" in rule.verbs, "*" in rule.api_groups, "*" in rule.resources, not rule.names]
        if asked is not None:
            lists = [sought.intersection(has) for sought, has in zip(asked, lists, strict=False)]
            fits = [is_wild or bool(has) for is_wild, has in zip(wild, lists, strict=True)]
            if not fits[0] or not ((fits[1] and fits[2]) or (asked.urls and rule.urls)):
                return
        number, self._count = self._count, self._count + 1
        axes = (self._verbs, self._groups, self._resources, self._names)
        for axis, values, is_wild in zip(axes, lists, wild, strict=True):
            axis.add(number, values)
            if is_wild:
                axis.add_wild(number)
        self._add_urls(number, rule.urls)

    def _add_urls(self, number: int, urls: Sequence[str]) -> None:
        self._urls.add(number, urls)
        for url in urls:
            if url.endswith("*"):
                prefix = url.rstrip("*")
                self._lengths.add(len(prefix))
                self._prefixes.add(number, (prefix,))

    def verb(self, verb: str) -> int:
        return self._verbs.allowing(verb)

    def group(self, group: str) -> int:
        return self._groups.allowing(group)

    def resource(self, resource: str) -> int:
        """A resource, or `resource/subresource`."""
        found = self._resources.allowing(resource)
        _, slash, subresource = resource.partition("/")
        return found | self._resources.exactly(f"*/{subresource}") if slash else found

    def name(self, name: str) -> int:
        return self._names.allowing(name)

    def unnamed(self) -> int:
        """The rules for objects of all names."""
        return self._names.everything()

    def url(self, url: str) -> int:
        found = self._urls.exactly(url)
        for length in self._lengths:
            if length <= len(url):
                found |= self._prefixes.exactly(url[:length])
        return found

    def match(self, attributes: Attributes, combined: str) -> Match:
        """How the best of the rules fits; `combined` is resource/subresource."""
        found = self.verb(attributes.verb)
        if not attributes.is_resource:
            return Match.FOR_ALL_NAMES if found & self.url(attributes.path) else Match.NONE
        found &= self.group(attributes.group) & self.resource(combined)
        if not found:
            return Match.NONE
        if found & self.unnamed():
            return Match.FOR_ALL_NAMES
        is_named = found & self._names.exactly(attributes.name)
        return Match.FOR_THIS_NAME if is_named else Match.FOR_OTHER_NAMES
