"""Pod Security: the levels `baseline` and `restricted`, and the labels of namespaces that ask for them.

A check is a function of a pod's metadata and spec. It answers None, or why the pod is not allowed: a few words that
name the rule, and what exactly is wrong. A rule has a function for each minor version of Kubernetes that changed it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import orjson

from pykcp.apis.kube.workloads.forms import WRONG_FORM
from pykcp.apis.kube.workloads.pod_security_checks import CHECKS, BadPod, PodCheck
from pykcp.machinery.status import FieldError, invalid
from pykcp.types import Object

PREFIX = "pod-security.kubernetes.io/"
PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
LEVELS = (PRIVILEGED, BASELINE, RESTRICTED)
LATEST = "latest"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,8})")
_NEWEST = 35
"""The minor version of Kubernetes that last changed a check."""


class LevelVersion(NamedTuple):
    level: str = PRIVILEGED
    version: str = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


_ALL_PODS = LevelVersion()


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """What a namespace asks for."""

    enforce: LevelVersion = _ALL_PODS
    audit: LevelVersion = _ALL_PODS
    warn: LevelVersion = _ALL_PODS

    @property
    def allows_everything(self) -> bool:
        return all(one.level == PRIVILEGED for one in (self.enforce, self.audit, self.warn))


def read_policy(labels: Mapping[str, str]) -> tuple[PodPolicy, list[FieldError]]:
    """The policy of a namespace with these labels, and what is wrong with them.

    A wrong level is `restricted` where it is enforced; it warns of nothing.
    """
    errors: list[FieldError] = []
    enforce = _read(labels, "enforce", RESTRICTED, errors)
    audit = _read(labels, "audit", PRIVILEGED, errors)
    warn = _read(labels, "warn", PRIVILEGED, errors)
    asked = labels.get(f"{PREFIX}enforce")
    if f"{PREFIX}warn" not in labels and asked in LEVELS and asked != PRIVILEGED:
        version = warn.version if f"{PREFIX}warn-version" in labels else enforce.version
        warn = LevelVersion(enforce.level, version)
    return PodPolicy(enforce, audit, warn), errors


def _read(
    labels: Mapping[str, str], mode: str, instead: str, errors: list[FieldError]
) -> LevelVersion:
    level = labels.get(f"{PREFIX}{mode}", PRIVILEGED)
    if level not in LEVELS:
        path = f"metadata.labels[{PREFIX}{mode}]"
        errors.append(invalid(path, level, f"must be one of {', '.join(LEVELS)}"))
        level = instead
    version = labels.get(f"{PREFIX}{mode}-version", LATEST)
    if version != LATEST and not _VERSION.fullmatch(version):
        path = f"metadata.labels[{PREFIX}{mode}-version]"
        errors.append(invalid(path, version, 'must be "latest" or "v1.x"'))
        version = LATEST
    return LevelVersion(level, version)


def violations(asked: LevelVersion, metadata: Object, spec: Object) -> list[BadPod]:
    """Every rule of a level that a pod breaks."""
    if asked.level == PRIVILEGED:
        return []
    minor = _NEWEST if asked.version == LATEST else min(int(asked.version[3:]), _NEWEST)
    found = (check(metadata, spec) for check in _checks(asked.level, minor))
    return [bad for bad in found if bad is not None]


class Judgement(NamedTuple):
    """What a policy says of a pod or of a template."""

    enforced: str = ""
    """Why a pod is not allowed; "" if it is."""
    audited: str = ""
    warned: str = ""
    has_form: bool = True
    """False: it does not have the form of a pod."""


def judge(
    kind: tuple[str, str], obj: Object, old: Object | None, policy: PodPolicy
) -> Judgement | None:
    """None if an object (of this group and plural) is not to be checked."""
    try:
        pod = pod_of(kind, obj)
        if pod is None:
            return None
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        enforced = ""
        if kind == _PODS:
            if old is not None and not changes_images(spec, old.get("spec") or {}):
                return None
            enforced = describe(violations(policy.enforce, metadata, spec))
        audited = describe(violations(policy.audit, metadata, spec))
        return Judgement(enforced, audited, describe(violations(policy.warn, metadata, spec)))
    except WRONG_FORM:  # of a CRD that is not Kubernetes' own
        return Judgement(has_form=False)


def judge_texts(
    kind: tuple[str, str], text: bytes, old: bytes | None, policy: PodPolicy
) -> Judgement | None:
    """The same of JSON. For worker processes."""
    return judge(kind, orjson.loads(text), None if old is None else orjson.loads(old), policy)


_PODS = ("", "pods")


@cache
def _checks(level: str, minor: int) -> tuple[PodCheck, ...]:
    """The checks of a level in a version: the rules of `baseline` first, each by name."""
    current = {}
    for rule in CHECKS:
        known = [check for since, check in rule.versions if since <= minor]
        if known:
            current[rule.name] = rule, known[-1]
    rules = [rule for rule, _ in current.values()]
    if level == BASELINE:
        left = [rule for rule in rules if not rule.is_restricted]
    else:
        replaced = {name for rule in rules for name in rule.replaces}
        left = [rule for rule in rules if rule.name not in replaced]
    left.sort(key=lambda rule: (rule.is_restricted, rule.name))
    return tuple(current[rule.name][1] for rule in left)


def describe(bad: Iterable[BadPod]) -> str:
    """All rules that are broken, with what is wrong."""
    return ", ".join(f"{one.rule} ({one.detail})" if one.detail else one.rule for one in bad)


class Summary:
    """Pods that break the rules of a level, by the rules that they break."""

    def __init__(self, asked: LevelVersion) -> None:
        self._asked = asked
        self._names: dict[str, list[str]] = {}

    def add(self, pod: Object) -> None:
        metadata: Object = pod.get("metadata") or {}
        bad = violations(self._asked, metadata, pod.get("spec") or {})
        if bad:
            rules = ", ".join(one.rule for one in bad)
            self._names.setdefault(rules, []).append(metadata.get("name") or "")

    def lines(self) -> list[str]:
        return sorted(f"{_some(names)}: {rules}" for rules, names in self._names.items())


def _some(names: list[str]) -> str:
    first, others = min(names), len(names) - 1
    if not others:
        return first
    return f"{first} (and {others} other pod{'s' if others > 1 else ''})"


_TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
}
TEMPLATED = tuple(_TEMPLATES)
"""Kinds that contain a template of pods."""


def pod_of(kind: tuple[str, str], obj: Object) -> Object | None:
    """The pod, or the template of pods, of an object; None if it has none."""
    found: Any = obj
    for name in _TEMPLATES.get(kind, ()):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def changes_images(new: Object, old: Object) -> bool:
    """Whether an update of a pod adds containers or changes an image: other updates are not checked."""
    for group in ("containers", "initContainers"):
        if list(_images(new, group)) != list(_images(old, group)):
            return True
    known = dict(_named_images(old))
    return any(known.get(name, _ADDED) != image for name, image in _named_images(new))


_ADDED = object()


def _images(spec: Object, group: str) -> Iterator[Any]:
    return (container.get("image") for container in spec.get(group) or ())


def _named_images(spec: Object) -> Iterator[tuple[Any, Any]]:
    for container in spec.get("ephemeralContainers") or ():
        yield container.get("name"), container.get("image")
