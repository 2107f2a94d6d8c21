"""Changes to a workload for some of its clusters. Pure."""

from __future__ import annotations

from pykcp.machinery.labels import LabelSelector
from pykcp.machinery.patch import jsonpatch
from pykcp.machinery.patch.refusals import PatchTooCostly
from pykcp.machinery.status import StatusError
from pykcp.multicluster.interpreter.kinds import KindTraits, pod_spec, with_value
from pykcp.multicluster.scheduling.model import ClusterView, WeightedTerm
from pykcp.multicluster.scheduling.policy import label_selector
from pykcp.types import Object

_FIXED = ("apiVersion", "kind", "metadata")
_MOST_COPIED = 256 << 10
"""Octets that the patches of all overrides of a leaf may copy."""
_MOST_MOVED = 1_000_000
"""Items of lists that they may shift."""


class BadOverride(ValueError):
    """An override that cannot be applied; the text says which and why."""


def overridden(
    leaf: Object, rules: KindTraits, placement: Object | None, cluster: ClusterView | None
) -> Object:
    """The leaf with all overrides of its cluster. Raises BadOverride."""
    overrides = ((placement or {}).get("spec") or {}).get("overrides") or ()
    budget = jsonpatch.Budget(_MOST_COPIED, _MOST_MOVED)
    for index, override in enumerate(overrides):
        if cluster is not None and _applies(override, cluster):
            leaf = _one(leaf, rules, override, index, budget)
    return leaf


def _applies(override: Object, cluster: ClusterView) -> bool:
    selector = override.get("clusterSelector")
    if not selector:
        return True
    problems: list[str] = []
    found: LabelSelector = label_selector(selector, problems)
    names = frozenset(selector.get("clusterNames") or ())
    term = WeightedTerm(found, names, 1, frozenset(selector.get("exclude") or ()))
    return not problems and term.matches(cluster)


def _one(
    leaf: Object, rules: KindTraits, override: Object, index: int, budget: jsonpatch.Budget
) -> Object:
    made = leaf
    prefix = override.get("imagePrefix")
    if prefix and rules.template:
        made = _with_images(made, rules, prefix)
    patch = override.get("jsonPatch")
    if not patch:
        return made
    try:
        patched = jsonpatch.apply(made, patch, budget)
    except (StatusError, PatchTooCostly) as error:
        notes = "; ".join(getattr(error, "__notes__", ())) or str(error)
        raise BadOverride(f"overrides[{index}]: {notes}") from None
    if not isinstance(patched, dict) or any(patched.get(f) != made.get(f) for f in _FIXED):
        raise BadOverride(f"overrides[{index}]: apiVersion, kind and metadata cannot be changed")
    return patched


def _with_images(leaf: Object, rules: KindTraits, prefix: str) -> Object:
    spec = pod_spec(rules, leaf)
    for field in ("containers", "initContainers"):
        containers = spec.get(field)
        if containers:
            renamed = [{**c, "image": prefixed(c["image"], prefix)} for c in containers]
            leaf = with_value(leaf, (*rules.template, "spec", field), renamed)
    return leaf


def prefixed(image: str, prefix: str) -> str:
    """The image in another registry: `docker.io/library/nginx:1` → `mirror.local/library/nginx:1`."""
    first, slash, rest = image.partition("/")
    is_registry = slash and ("." in first or ":" in first or first == "localhost")
    return f"{prefix.rstrip('/')}/{rest if is_registry else image}"
