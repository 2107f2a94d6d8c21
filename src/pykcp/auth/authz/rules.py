"""Policy rules: matching a request, covering one another, and being shown to people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import product
from typing import Any

from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.errors import aggregate
from pykcp.auth.user import User
from pykcp.machinery.status import go_quote


class Match(IntEnum):
    """How a rule fits a request."""

    NONE = 0
    FOR_OTHER_NAMES = 1
    """All fits, but the rule is for objects of other names."""
    FOR_THIS_NAME = 2
    FOR_ALL_NAMES = 3


class Rule:
    """One PolicyRule: the lists as they were written, and sets to match with."""

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
        self._any_subresource = frozenset(r[2:] for r in self.resources if r.startswith("*/"))
        self._names = frozenset(self.names)
        self._urls = _any_or_set(self.urls)
        self._prefixes = tuple(url.rstrip("*") for url in self.urls if url.endswith("*"))

    @classmethod
    def from_json(cls, rule: Mapping[str, Any]) -> Rule:
        get = rule.get
        return cls(
            get("verbs") or (), get("apiGroups") or (), get("resources") or (),
            get("resourceNames") or (), get("nonResourceURLs") or (),
        )  # fmt: skip

    def to_json(self) -> dict[str, list[str]]:
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.api_groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
        }
        return {key: list(values) for key, values in fields.items() if values}

    def _key(self) -> tuple[tuple[str, ...], ...]:
        return (self.verbs, self.api_groups, self.resources, self.names, self.urls)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and self._key() == other._key()

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


def _any_or_set(values: tuple[str, ...]) -> frozenset[str] | None:
    """None stands for everything."""
    return None if "*" in values else frozenset(values)


def quoted_list(values: Iterable[str]) -> str:
    """A list of strings as Go prints it with %q."""
    return "[" + " ".join(go_quote(value) for value in values) + "]"


# --- escalation ---------------------------------------------------------------


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The smallest parts of the wanted rules that no owned rule grants."""
    parts = (part for rule in wanted for part in _parts(rule))
    return [part for part in parts if not any(_covers(rule, part) for rule in owned)]


def _parts(rule: Rule) -> list[Rule]:
    """Equivalent rules with one group, resource, verb and name (or URL and verb) each."""
    parts = [
        Rule([verb], [group], [resource], [name] if name is not None else ())
        for group, resource, verb, name in product(
            rule.api_groups, rule.resources, rule.verbs, rule.names or (None,)
        )
    ]
    parts.extend(Rule([verb], urls=[url]) for url, verb in product(rule.urls, rule.verbs))
    return parts


def _covers(owner: Rule, part: Rule) -> bool:
    if owner._verbs is not None and part.verbs[0] not in owner._verbs:
        return False
    if part.urls:
        # An owner with resource names covers no URL, as upstream has it.
        return not owner.names and _url_covers(owner, part.urls[0])
    if owner._groups is not None and part.api_groups[0] not in owner._groups:
        return False
    if not _resource_covers(owner, part.resources[0]):
        return False
    if not part.names:
        return not owner.names
    return not owner.names or part.names[0] in owner._names


def _resource_covers(owner: Rule, resource: str) -> bool:
    if owner._resources is None or resource in owner._resources:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and subresource in owner._any_subresource


def _url_covers(owner: Rule, url: str) -> bool:
    return url in owner.urls or any(url.startswith(prefix) for prefix in owner._prefixes)


def _compacted(parts: Iterable[Rule]) -> list[Rule]:
    """Parts that differ by verb only, put together; URLs stay apart, as upstream leaves them."""
    verbs: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    apart: list[Rule] = []
    for part in parts:
        if part.urls:
            apart.append(part)
        else:
            key = (part.api_groups, part.resources, part.names)
            verbs.setdefault(key, []).extend(part.verbs)
    together = [Rule(v, groups, resources, n) for (groups, resources, n), v in verbs.items()]
    return apart + together


def escalation_message(
    user: User, owned: Sequence[Rule], wanted: Iterable[Rule], errors: Sequence[str] = ()
) -> str | None:
    """Why a user may not grant these rules; None if they are all its own."""
    missing = uncovered(owned, wanted)
    if not missing:
        return None
    lines = sorted({rule.compact() for rule in _compacted(missing)})
    message = (
        f"user {go_quote(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant "
        "RBAC permissions not currently held:\n" + "\n".join(lines)
    )
    if errors:
        message += f"; resolution errors: [{aggregate(errors)}]"
    return message
