"""Which of some rules are not covered by others, and the message that lists them.

Upstream breaks a rule down into all combinations of its groups, resources, verbs and names, and
looks for each of them in the rules that the user has. Here values that the same rules cover are
compared together: a rule of a thousand groups, resources and verbs takes a few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple

from pykcp.auth.authz.rule_index import RuleIndex, Values
from pykcp.auth.authz.rules import PolicyRule, quoted_list
from pykcp.auth.errors import aggregate
from pykcp.auth.user import User
from pykcp.machinery.status import go_quote
from pykcp.steps import Steps, at_once

MAX_MISSING = 1000
"""Combinations that a refusal names; with more of them it says so."""
_MORE = "(further permissions are missing)"
_MOST_COMPARISONS = 1_000_000
"""Of groups of values. Only rules made for it need more; they count as not covered."""


class Missing(NamedTuple):
    """Every combination of these values is missing: `PolicyRule` without its sets."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def parts(self) -> Iterator[PolicyRule]:
        """One group, resource, verb and name (or URL and verb) each, as upstream has them."""
        for url, verb in product(self.urls, self.verbs):
            yield PolicyRule([verb], urls=[url])
        for group, resource, verb in product(self.groups, self.resources, self.verbs):
            for name in self.names or (None,):
                yield PolicyRule([verb], [group], [resource], () if name is None else [name])

    @property
    def combinations(self) -> int:
        places = len(self.groups) * len(self.resources) * max(1, len(self.names))
        return len(self.verbs) * (places + len(self.urls))


def uncovered(owned: Sequence[PolicyRule], wanted: Sequence[PolicyRule]) -> list[PolicyRule]:
    """The smallest parts of the wanted rules that no owned rule grants."""
    boxes = at_once(find_missing(owned, wanted, most=None))
    return [part for box in boxes for part in box.parts()]


def find_missing(
    owned: Sequence[PolicyRule], wanted: Sequence[PolicyRule], most: int | None = MAX_MISSING
) -> Steps[list[Missing]]:
    """What of the wanted rules no owned rule grants; the search ends when more than `most`
    combinations were found."""
    asked = yield from _asked_values(wanted)
    index = RuleIndex(len(owned))
    for rule in owned:
        index.add(rule, asked)
        yield
    search = _Search(index, most)
    for rule in wanted:
        if rule.api_groups and rule.resources:
            yield from search.resources(rule)
        if rule.urls:
            yield from search.urls(rule)
        if search.is_over():
            break
        yield
    return search.found


def _asked_values(wanted: Sequence[PolicyRule]) -> Steps[Values]:
    asked = Values(set(), set(), set(), set(), set())
    for rule in wanted:
        asked.verbs.update(rule.verbs)
        asked.groups.update(rule.api_groups)
        asked.resources.update(rule.resources)
        asked.resources.update("*/" + r.partition("/")[2] for r in rule.resources if "/" in r)
        asked.names.update(rule.names)
        asked.urls.update(rule.urls)
        yield
    return asked


class _Axis(NamedTuple):
    """The values of one list of a wanted rule."""

    alike: dict[int, list[str]]
    """Values grouped by the set of owned rules that allow them."""
    all_of_them: int
    """The owned rules that allow all values."""


class _Search:
    """For what is missing, in one wanted rule after another."""

    def __init__(self, index: RuleIndex, most: int | None) -> None:
        self._index, self._most = index, most
        self.found: list[Missing] = []
        self._count = self._compared = 0

    def is_over(self) -> bool:
        return self._most is not None and self._count > self._most

    def _add(self, missing: Missing) -> None:
        self.found.append(missing)
        self._count += missing.combinations

    def resources(self, rule: PolicyRule) -> Steps[None]:
        index = self._index
        groups = yield from _axis(rule.api_groups, index.group)
        resources = yield from _axis(rule.resources, index.resource)
        names = _Axis({index.unnamed(): []}, index.unnamed())
        if rule.names:
            names = yield from _axis(rule.names, index.name)
        verbs = yield from _axis(rule.verbs, index.verb)
        below = names.all_of_them & verbs.all_of_them
        for held, some in groups.alike.items():
            if held & resources.all_of_them & below:
                continue
            if not held:
                self._add(Missing(rule.verbs, tuple(some), rule.resources, rule.names))
                continue
            for also, places in resources.alike.items():
                here = held & also
                if here & below:
                    continue
                if not here:
                    self._add(Missing(rule.verbs, tuple(some), tuple(places), rule.names))
                    continue
                place = Missing((), tuple(some), tuple(places))
                yield from self._names(rule, place, here, names, verbs)
                if self.is_over():
                    return

    def _names(
        self, rule: PolicyRule, place: Missing, held: int, names: _Axis, verbs: _Axis
    ) -> Steps[None]:
        for also, some in names.alike.items():
            here = held & also
            yield
            if here & verbs.all_of_them:
                continue
            self._compared += len(verbs.alike)
            lacking = {
                verb for may, alike in verbs.alike.items() if not here & may for verb in alike
            }
            if self._compared > _MOST_COMPARISONS:
                lacking, self._most = set(rule.verbs), 0
            if lacking:
                ordered = tuple(verb for verb in rule.verbs if verb in lacking)
                self._add(place._replace(verbs=ordered, names=tuple(some)))
            if self.is_over():
                return

    def urls(self, rule: PolicyRule) -> Steps[None]:
        index = self._index
        verbs = yield from _axis(rule.verbs, index.verb)
        unnamed = index.unnamed()  # a rule with resource names covers no URL, as upstream has it
        for url in rule.urls:
            held = index.url(url) & unnamed
            yield
            if held & verbs.all_of_them:
                continue
            lacking = {
                verb for may, alike in verbs.alike.items() if not held & may for verb in alike
            }
            if lacking:
                ordered = tuple(verb for verb in rule.verbs if verb in lacking)
                self._add(Missing(ordered, urls=(url,)))
            if self.is_over():
                return


def _axis(values: Iterable[str], allowing: Callable[[str], int]) -> Steps[_Axis]:
    alike: dict[int, list[str]] = {}
    all_of_them = -1
    for value in values:
        held = allowing(value)
        alike.setdefault(held, []).append(value)
        all_of_them &= held
        yield
    return _Axis(alike, all_of_them)


# --- the refusal --------------------------------------------------------------


def escalation_message(
    user: User,
    owned: Sequence[PolicyRule],
    wanted: Sequence[PolicyRule],
    errors: Sequence[str] = (),
) -> Steps[str | None]:
    """Why a user may not grant these rules; None if they are all its own."""
    missing = yield from find_missing(owned, wanted)
    if not missing:
        return None
    parts = list(islice((part for box in missing for part in box.parts()), MAX_MISSING + 1))
    is_short = len(parts) <= MAX_MISSING
    lines = sorted({rule.compact() for rule in _compacted(parts[:MAX_MISSING])})
    if not is_short:
        lines.append(_MORE)
    message = (
        f"user {go_quote(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant "
        "RBAC permissions not currently held:\n" + "\n".join(lines)
    )
    if errors:
        message += f"; resolution errors: [{aggregate(errors)}]"
    return message


def _compacted(parts: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Parts that differ by verb only, put together; URLs stay apart, as upstream leaves them."""
    verbs: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    apart: list[PolicyRule] = []
    for part in parts:
        if part.urls:
            apart.append(part)
        else:
            key = (part.api_groups, part.resources, part.names)
            verbs.setdefault(key, []).extend(part.verbs)
    together = [PolicyRule(v, groups, resources, n) for (groups, resources, n), v in verbs.items()]
    return apart + together
