"""The audit policy: which rule applies to a request, and what is recorded. Pure."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from pykcp.machinery.names import dns1123_subdomain
from pykcp.machinery.status import FieldError, invalid, not_supported, required

API_VERSION = "audit.k8s.io/v1"
RECEIVED, STARTED, COMPLETE, PANIC = (
    "RequestReceived",
    "ResponseStarted",
    "ResponseComplete",
    "Panic",
)
STAGES = (RECEIVED, STARTED, COMPLETE, PANIC)


class PolicyError(Exception):
    """A policy that cannot be used; the message names the file and field."""


class AuditLevel(IntEnum):
    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def word(self) -> str:
        return _WORDS[self]


_WORDS = ("None", "Metadata", "Request", "RequestResponse")
_LEVELS = {word: AuditLevel(place) for place, word in enumerate(_WORDS)}


class AuditedRequest(NamedTuple):
    """The attributes that rules match. `user` is "" and `groups` empty without authentication."""

    user: str
    groups: tuple[str, ...]
    verb: str
    is_resource: bool
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """What is recorded of a request."""

    level: AuditLevel
    omit_stages: frozenset[str]
    omit_managed_fields: bool


@dataclass(frozen=True, slots=True)
class Resources:
    group: str
    resources: tuple[str, ...]
    names: tuple[str, ...]

    def matches(self, question: AuditedRequest) -> bool:
        if self.group not in ("*", question.group):
            return False
        if not self.resources:
            return True
        if self.names and question.name not in self.names:
            return False
        return any(_resource_matches(spec, question) for spec in self.resources)


@dataclass(frozen=True, slots=True)
class AuditRule:
    outcome: AuditOutcome
    users: frozenset[str]
    groups: frozenset[str]
    verbs: frozenset[str]
    resources: tuple[Resources, ...]
    namespaces: frozenset[str]
    paths: tuple[str, ...]

    def matches(self, question: AuditedRequest) -> bool:
        if self.users and question.user not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(question.groups):
            return False
        if self.verbs and question.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return self._matches_resource(question)
        if self.paths:
            return not question.is_resource and any(
                _path_matches(spec, question.path) for spec in self.paths
            )
        return True

    def _matches_resource(self, question: AuditedRequest) -> bool:
        if not question.is_resource:
            return False
        if self.namespaces and question.namespace not in self.namespaces:
            return False
        return not self.resources or any(r.matches(question) for r in self.resources)


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    rules: tuple[AuditRule, ...]
    otherwise: AuditOutcome

    def evaluate(self, question: AuditedRequest) -> AuditOutcome:
        """The first rule that matches decides; nothing is recorded if none does."""
        for rule in self.rules:
            if rule.matches(question):
                return rule.outcome
        return self.otherwise


def _path_matches(spec: str, path: str) -> bool:
    return spec in ("*", path) or (spec.endswith("*") and path.startswith(spec.rstrip("*")))


def _resource_matches(spec: str, question: AuditedRequest) -> bool:
    resource, subresource = question.resource, question.subresource
    combined = f"{resource}/{subresource}" if subresource else resource
    if spec in ("*", combined):
        return True
    if subresource and spec.startswith("*/") and spec[2:] == subresource:
        return True
    return spec.endswith("/*") and spec[:-2] == resource


# -- reading -----------------------------------------------------------------------------------


def load_policy(path: str) -> AuditPolicy:
    try:
        text = pathlib.Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(
            f'loading audit policy file: failed to read file path "{path}": {error}'
        ) from error
    try:
        return parse_policy(text)
    except PolicyError as error:
        raise PolicyError(f"loading audit policy file: {error}: from file {path}") from error


def parse_policy(text: str) -> AuditPolicy:
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PolicyError(f"failed decoding: {error}") from error
    if not isinstance(document, dict):
        raise PolicyError("failed decoding: not an object")
    version, kind = document.get("apiVersion"), document.get("kind")
    if (version, kind) != (API_VERSION, "Policy"):
        raise PolicyError(
            f"failed decoding: no kind {str(kind)!r} is registered for version {str(version)!r}"
        )
    return _Reader(document).read()


class _Reader:
    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._errors: list[FieldError] = []

    def read(self) -> AuditPolicy:
        document = self._document
        omitted = self._stages(document.get("omitStages"), "omitStages")
        drops = bool(document.get("omitManagedFields"))
        rules = tuple(
            self._rule(rule or {}, f"rules[{i}]", omitted, drops)
            for i, rule in enumerate(document.get("rules") or ())
        )
        if self._errors:
            texts = [error.text() for error in self._errors]
            raise PolicyError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        if not rules:
            raise PolicyError("loaded illegal policy with 0 rules")
        return AuditPolicy(rules, AuditOutcome(AuditLevel.NONE, omitted, drops))

    def _rule(self, rule: Any, path: str, omitted: frozenset[str], drops: bool) -> AuditRule:
        level = self._level(rule.get("level"), f"{path}.level")
        urls = _texts(rule.get("nonResourceURLs"))
        self._check_urls(urls, f"{path}.nonResourceURLs")
        resources = tuple(
            self._resources(r or {}, f"{path}.resources") for r in rule.get("resources") or ()
        )
        own = self._stages(rule.get("omitStages"), f"{path}.omitStages")
        namespaces = _texts(rule.get("namespaces"))
        if urls and (resources or namespaces):
            self._errors.append(
                invalid(f"{path}.nonResourceURLs", list(urls),
                        "rules cannot apply to both regular resources and non-resource URLs")
            )  # fmt: skip
        wanted = rule.get("omitManagedFields")
        outcome = AuditOutcome(level, omitted | own, drops if wanted is None else bool(wanted))
        return AuditRule(
            outcome,
            frozenset(_texts(rule.get("users"))),
            frozenset(_texts(rule.get("userGroups"))),
            frozenset(_texts(rule.get("verbs"))),
            resources,
            frozenset(namespaces),
            urls,
        )

    def _level(self, word: Any, path: str) -> AuditLevel:
        if not word:
            self._errors.append(required(path))
        elif word not in _LEVELS:
            self._errors.append(not_supported(path, word, _WORDS))
        return _LEVELS.get(word, AuditLevel.NONE)

    def _stages(self, value: Any, path: str) -> frozenset[str]:
        stages = _texts(value)
        self._errors += [
            invalid(f"{path}[{i}]", stage, f"allowed stages are {','.join(STAGES)}")
            for i, stage in enumerate(stages)
            if stage not in STAGES
        ]
        return frozenset(stages)

    def _check_urls(self, urls: Sequence[str], path: str) -> None:
        for i, url in enumerate(urls):
            if url == "*":
                continue
            if not url.startswith("/"):
                self._errors.append(
                    invalid(f"{path}[{i}]", url,
                            "non-resource URL rules must begin with a '/' character")
                )  # fmt: skip
            if "*" in url[:-1]:
                self._errors.append(
                    invalid(f"{path}[{i}]", url, "non-resource URL wildcards '*' must be the "
                            "final character of the rule")
                )  # fmt: skip

    def _resources(self, value: Any, path: str) -> Resources:
        group = str(value.get("group") or "")
        if group not in ("", "*"):
            problems = dns1123_subdomain(group)
            if problems:
                self._errors.append(invalid(f"{path}.group", group, ",".join(problems)))
        resources, names = _texts(value.get("resources")), _texts(value.get("resourceNames"))
        if names and not resources:
            self._errors.append(
                invalid(f"{path}.resourceNames", list(names),
                        "using resourceNames requires at least one resource")
            )  # fmt: skip
        return Resources(group, resources, names)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value or ())
