"""Policy rules: matching a request, and their text form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from pykcp.auth.authz.attributes import Attributes
from pykcp.machinery.status import go_quote


class Match(IntEnum):
    """How a rule fits a request."""

    NONE = 0
    FOR_OTHER_NAMES = 1
    """All fits, but the rule is for objects of other names."""
    FOR_THIS_NAME = 2
    FOR_ALL_NAMES = 3


class PolicyRule:
    """One PolicyRule: the lists as they were written, and sets to match with."""

    FIELDS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")

    __slots__ = (
        "_any_subresource", "_groups", "_names", "_prefixes", "_resources", "_urls", "_verbs",
        "api_groups", "names", "resources", "urls", "verbs",
    )  # fmt: skip

    def __init__(
        self,
        verbs: Sequence[str] = (),
        api_groups: Sequence[str] = (),
        resources: Sequence[str] = (),
        names: Sequence[str] = (),
        urls: Sequence[str] = (),
    ) -> None:
        self.verbs, self.api_groups, self.resources = (
            tuple(verbs),
            tuple(api_groups),
            tuple(resources),
        )
        self.names, self.urls = tuple(names), tuple(urls)
        self._verbs = _any_or_set(self.verbs)
        self._groups = _any_or_set(self.api_groups)
        self._resources = _any_or_set(self.resources)
        self._any_subresource = _set(tuple(r[2:] for r in self.resources if r.startswith("*/")))
        self._names = _set(self.names)
        self._urls = _any_or_set(self.urls)
        self._prefixes = tuple(url.rstrip("*") for url in self.urls if url.endswith("*"))

    @classmethod
    def from_json(cls, rule: Mapping[str, Any]) -> PolicyRule:
        return cls(*[rule.get(field) or () for field in cls.FIELDS])

    def to_json(self) -> dict[str, list[str]]:
        return {
            field: list(values)
            for field, values in zip(self.FIELDS, self._key(), strict=True)
            if values
        }

    def _key(self) -> tuple[tuple[str, ...], ...]:
        return (self.verbs, self.api_groups, self.resources, self.names, self.urls)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PolicyRule) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Rule{self.compact()}"

    def match(self, attributes: Attributes, combined: str) -> Match:
        """`combined` is resource/subresource, or the resource alone."""
        if self._verbs is not None and attributes.verb not in self._verbs:
            return Match.NONE
        if not attributes.is_resource:
            return Match.FOR_ALL_NAMES if self._matches_url(attributes.path) else Match.NONE
        if self._groups is not None and attributes.group not in self._groups:
            return Match.NONE
        if (
            self._resources is not None
            and combined not in self._resources
            and (not attributes.subresource or attributes.subresource not in self._any_subresource)
        ):
            return Match.NONE
        if not self._names:
            return Match.FOR_ALL_NAMES
        return Match.FOR_THIS_NAME if attributes.name in self._names else Match.FOR_OTHER_NAMES

    def _matches_url(self, path: str) -> bool:
        if self._urls is None or path in self._urls:
            return True
        return bool(self._prefixes) and path.startswith(self._prefixes)

    def compact(self) -> str:
        """For messages about escalation."""
        fields = (
            ("APIGroups", self.api_groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{k}:{quoted_list(v)}" for k, v in fields if v) + "}"


_FEW = 8


def _set(values: tuple[str, ...]) -> Collection[str]:
    """To look values up in; a few are found as quickly without a set, which takes memory."""
    return values if len(values) <= _FEW else frozenset(values)


def _any_or_set(values: tuple[str, ...]) -> Collection[str] | None:
    """None stands for everything."""
    return None if "*" in values else _set(values)


def quoted_list(values: Iterable[str]) -> str:
    """A list of strings as Go prints it with %q."""
    return "[" + " ".join(go_quote(value) for value in values) + "]"
