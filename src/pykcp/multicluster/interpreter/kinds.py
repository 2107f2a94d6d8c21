"""The table of kinds. A kind that is not listed is handled by its shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pykcp.machinery.quantity import QuantityError
from pykcp.machinery.quantity import parse as parse_quantity
from pykcp.multicluster.scheduling.model import DIVIDED, DUPLICATED, SINGLE
from pykcp.types import Object

FieldPath = tuple[str, ...]

_REPLICAS: FieldPath = ("spec", "replicas")
_TEMPLATE: FieldPath = ("spec", "template")


@dataclass(frozen=True, slots=True)
class KindTraits:
    strategy: str = DUPLICATED
    """Where its objects go without a Placement."""
    replicas: tuple[FieldPath, ...] = ()
    """Numbers that are divided; the first one counts the pods."""
    template: FieldPath = ()
    """The pod template."""
    is_follower: bool = False
    """It is placed with the workloads that need it, and nowhere without any."""
    keeps_data: bool = False
    """Its copies hold what exists nowhere else."""
    is_exclusive: bool = False
    """Two copies with the same identity must not run at a time."""
    is_placed: bool = True
    """False: its objects belong to the workspace and are not placed."""


TABLE: Mapping[str, KindTraits] = {
    "deployments.apps": KindTraits(DIVIDED, (_REPLICAS,), _TEMPLATE),
    "replicasets.apps": KindTraits(DIVIDED, (_REPLICAS,), _TEMPLATE),
    "replicationcontrollers": KindTraits(DIVIDED, (_REPLICAS,), _TEMPLATE),
    "statefulsets.apps": KindTraits(SINGLE, (_REPLICAS,), _TEMPLATE, is_exclusive=True),
    "daemonsets.apps": KindTraits(DUPLICATED, (), _TEMPLATE),
    "jobs.batch": KindTraits(SINGLE, (("spec", "parallelism"), ("spec", "completions")), _TEMPLATE),
    "cronjobs.batch": KindTraits(SINGLE, (), ("spec", "jobTemplate", "spec", "template")),
    "pods": KindTraits(SINGLE, (), ()),
    "configmaps": KindTraits(is_follower=True),
    "secrets": KindTraits(is_follower=True),
    "serviceaccounts": KindTraits(is_follower=True),
    "persistentvolumeclaims": KindTraits(is_follower=True, keeps_data=True),
    "services": KindTraits(is_follower=True),
    "endpoints": KindTraits(is_follower=True),
    "ingresses.networking.k8s.io": KindTraits(is_follower=True),
    "roles.rbac.authorization.k8s.io": KindTraits(is_follower=True),
    "rolebindings.rbac.authorization.k8s.io": KindTraits(is_follower=True),
    "horizontalpodautoscalers.autoscaling": KindTraits(is_follower=True),
    "poddisruptionbudgets.policy": KindTraits(is_follower=True),
    "events": KindTraits(is_placed=False),
    "events.events.k8s.io": KindTraits(is_placed=False),
    "leases.coordination.k8s.io": KindTraits(is_placed=False),
    "endpointslices.discovery.k8s.io": KindTraits(is_placed=False),
    "resourcequotas": KindTraits(is_placed=False),
    "limitranges": KindTraits(is_placed=False),
    "namespaces": KindTraits(is_placed=False),
}

_OTHER = KindTraits()
_SCALABLE = KindTraits(DIVIDED, (_REPLICAS,))
_OWN_GROUPS = (".kcp.dev", ".kcp.io")


def rules_of(type_name: str, obj: Object, *, has_scale: bool = False) -> KindTraits:
    """`has_scale`: the type has the subresource `scale`."""
    found = TABLE.get(type_name)
    if found is not None:
        return found
    if type_name.endswith(_OWN_GROUPS):
        return KindTraits(is_placed=False)
    return _SCALABLE if has_scale and isinstance(value_at(obj, _REPLICAS), int) else _OTHER


def value_at(obj: Any, path: FieldPath) -> Any:
    for name in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj


def with_value(obj: Object, path: FieldPath, value: Any) -> Object:
    """A copy with a field set; only what changes is copied."""
    name, *rest = path
    if not rest:
        return {**obj, name: value}
    inner = obj.get(name)
    below = with_value(inner if isinstance(inner, dict) else {}, tuple(rest), value)
    return {**obj, name: below}


def replicas_of(rules: KindTraits, obj: Object) -> int | None:
    """How many replicas an object asks for; None if its kind has none."""
    if not rules.replicas:
        return None
    value = value_at(obj, rules.replicas[0])
    return value if isinstance(value, int) else 1


def pod_spec(rules: KindTraits, obj: Object, type_name: str = "") -> Object:
    found = obj.get("spec") if type_name == "pods" else value_at(obj, (*rules.template, "spec"))
    return found if isinstance(found, dict) else {}


def requests_of(spec: Object) -> dict[str, int]:
    """What one pod requests, in thousandths: of its containers together, or of its largest
    initializing one.
    """
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, amount in _requests(container).items():
            total[name] = total.get(name, 0) + amount
    for container in spec.get("initContainers") or ():
        for name, amount in _requests(container).items():
            total[name] = max(total.get(name, 0), amount)
    return {name: amount for name, amount in total.items() if amount > 0}


def _requests(container: Object) -> dict[str, int]:
    resources = container.get("resources") or {}
    found = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    try:
        return {name: parse_quantity(amount).milli_value for name, amount in found.items()}
    except QuantityError:
        return {}


def has_claims(spec: Object, obj: Object) -> bool:
    """Whether the pods of a workload keep data in volumes."""
    templates = value_at(obj, ("spec", "volumeClaimTemplates"))
    volumes = spec.get("volumes") or ()
    return bool(templates) or any(v.get("persistentVolumeClaim") for v in volumes)


def usual_strategy(rules: KindTraits, obj: Object, type_name: str, placed_in: int) -> str:
    """Where an object goes without a Placement.

    A claim is a volume of one cluster: replicas in several clusters would each have other data.
    `placed_in`: how many clusters the object is in; one that was divided before stays as it is.
    """
    if rules.strategy != DIVIDED or placed_in > 1:
        return rules.strategy
    return SINGLE if has_claims(pod_spec(rules, obj, type_name), obj) else DIVIDED
