"""Tables of Kubernetes' kinds for workloads, as kubectl shows them.

Cells are computed from objects whose schema another person may have written (any CRD can be marked as one
of these kinds), so a value of an unexpected type gives an empty cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pykcp.apis.columns import AGE, CREATED_AT, field
from pykcp.apis.kube.workloads import pod_columns
from pykcp.apis.kube.workloads.metric_columns import targets
from pykcp.machinery.durations import age_since, human_duration
from pykcp.machinery.labels import SelectorError, from_label_selector
from pykcp.machinery.schema.definition import Cell, Column
from pykcp.machinery.schema.printer import NAME
from pykcp.types import Object

NONE, UNSET = "<none>", "<unset>"
_SHOWN = 3
"""How many items of a list are written out."""
_ADDRESS_WIDTH = 16
_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE = "kubernetes.io/role"
_ACCESS_MODES = (
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
)

Columns = tuple[Column, ...]


def columns_of(group: str, plural: str) -> Columns | None:
    """The columns of a kind; None for kinds whose table has names and times only."""
    made = _TABLES.get((group, plural))
    if made is None:
        return None
    return (_NAMES.get((group, plural), NAME), *made)


def _column(title: str, cell: Cell, kind: str = "string", *, wide: bool = False) -> Column:
    def guarded(obj: Object, now: datetime) -> Any:
        try:
            return cell(obj, now)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None

    return Column(title, kind, "", f"{title}.", int(wide), guarded)


def _text(title: str, *path: str, default: Any = "", wide: bool = False) -> Column:
    return _column(title, field(*path, default=default), wide=wide)


def _number(title: str, *path: str) -> Column:
    return _column(title, field(*path, default=0), "integer")


def _flag(title: str, *path: str, default: bool = False) -> Column:
    return _column(title, field(*path, default=default), "boolean")


def _of(obj: Object, *path: str) -> Any:
    return field(*path, default=None)(obj, _NO_TIME)


_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def _ratio(part: Sequence[str], whole: Sequence[str]) -> Cell:
    return lambda obj, _now: f"{_of(obj, *part) or 0}/{_of(obj, *whole) or 0}"


def _join(items: Sequence[Any], separator: str = ",") -> str:
    return separator.join(str(item) for item in items)


def _labels(value: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={label}" for key, label in sorted((value or {}).items())) or NONE


def _selector(*path: str) -> Cell:
    def cell(obj: Object, _now: datetime) -> str:
        try:
            return str(from_label_selector(_of(obj, *path))) or NONE
        except SelectorError:
            return "<error>"

    return cell


def _containers(*spec: str) -> tuple[Column, Column]:
    def listed(key: str) -> Cell:
        return lambda obj, _now: _join(
            [c.get(key, "") for c in _of(obj, *spec, "containers") or ()]
        )

    return (
        _column("Containers", listed("name"), wide=True),
        _column("Images", listed("image"), wide=True),
    )


def _with_more(items: Sequence[Any], total: int) -> str:
    if not items:
        return UNSET
    shown = _join(items[:_SHOWN])
    return f"{shown} + {total - _SHOWN} more..." if len(items) > _SHOWN else shown


_TEMPLATE = ("spec", "template", "spec")
_SELECTOR = _column("Selector", _selector("spec", "selector"), wide=True)


# Workloads


def _job_status(obj: Object, _now: datetime) -> str:
    conditions = _of(obj, "status", "conditions") or ()
    found = {c.get("type") for c in conditions if c.get("status") == "True"}
    for name in ("Complete", "Failed"):
        if name in found:
            return name
    if _of(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    order = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((name for name in order if name in found), "Running")


def _job_completions(obj: Object, _now: datetime) -> str:
    done, wanted = _of(obj, "status", "succeeded") or 0, _of(obj, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallelism = _of(obj, "spec", "parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(obj: Object, now: datetime) -> str:
    started, ended = _of(obj, "status", "startTime"), _of(obj, "status", "completionTime")
    if not started:
        return ""
    end = datetime.fromisoformat(ended) if ended else now
    return human_duration((end - datetime.fromisoformat(started)).total_seconds())


def _last_schedule(obj: Object, now: datetime) -> str:
    last = _of(obj, "status", "lastScheduleTime")
    return age_since(last, now) if last else NONE


def _go_bool(*path: str) -> Cell:
    def cell(obj: Object, _now: datetime) -> str:
        value = _of(obj, *path)
        return UNSET if value is None else str(bool(value))

    return cell


# Services


def _external_ip(obj: Object, _now: datetime) -> str:
    spec = obj.get("spec") or {}
    given, kind = spec.get("externalIPs") or [], spec.get("type")
    if kind == "ExternalName":
        return str(spec.get("externalName") or "")
    if kind == "LoadBalancer":
        balancer = _addresses(obj)
        return _join([*(balancer.split(",") if balancer else ()), *given]) or "<pending>"
    return (_join(given) or NONE) if kind in ("ClusterIP", "NodePort") else "<unknown>"


def _addresses(obj: Object) -> str:
    ingress = _of(obj, "status", "loadBalancer", "ingress") or ()
    found = _join(sorted({a.get("ip") or a.get("hostname") or "" for a in ingress} - {""}))
    return found if len(found) <= _ADDRESS_WIDTH else f"{found[: _ADDRESS_WIDTH - 3]}..."


def _service_ports(obj: Object, _now: datetime) -> str:
    def written(port: Object) -> str:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port['port']}{node}/{port.get('protocol', '')}"

    return _join([written(port) for port in _of(obj, "spec", "ports") or ()]) or NONE


def _hosts(obj: Object, _now: datetime) -> str:
    rules = _of(obj, "spec", "rules") or ()
    found = [rule["host"] for rule in rules if rule.get("host")]
    if not found:
        return "*"
    shown = _join(found[:_SHOWN])
    return f"{shown} + {len(rules) - _SHOWN} more..." if len(found) > _SHOWN else shown


def _ingress_ports(obj: Object, _now: datetime) -> str:
    return "80, 443" if _of(obj, "spec", "tls") else "80"


def _parameters(obj: Object, _now: datetime) -> str:
    given = _of(obj, "spec", "parameters")
    if not given:
        return NONE
    group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
    return f"{given.get('kind', '')}{group}/{given.get('name', '')}"


def _endpoints(obj: Object, _now: datetime) -> str:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [a.get("ip", "") for a in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            found += addresses
        found += [f"{_bracketed(a)}:{port.get('port', 0)}" for port in ports for a in addresses]
    return _with_more(found, len(found)) if obj.get("subsets") else NONE


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _slice_ports(obj: Object, _now: datetime) -> str:
    ports = obj.get("ports") or ()
    return _with_more([p.get("port") or p.get("name") or "*" for p in ports], len(ports))


def _slice_endpoints(obj: Object, _now: datetime) -> str:
    found = [a for endpoint in obj.get("endpoints") or () for a in endpoint.get("addresses") or ()]
    return _with_more(found, len(found))


def _parent(obj: Object, _now: datetime) -> str:
    given = _of(obj, "spec", "parentRef")
    if not given:
        return NONE
    group = f".{given['group']}" if given.get("group") else ""
    place = f"/{given['namespace']}" if given.get("namespace") else ""
    return f"{given.get('resource', '')}{group}".lower() + f"{place}/{given.get('name', '')}"


# Nodes and storage


def _node_status(obj: Object, _now: datetime) -> str:
    ready = [c for c in _of(obj, "status", "conditions") or () if c.get("type") == "Ready"]
    found = ["Unknown"]
    if ready:
        found = ["Ready" if ready[-1].get("status") == "True" else "NotReady"]
    if _of(obj, "spec", "unschedulable"):
        found.append("SchedulingDisabled")
    return _join(found)


def _node_roles(obj: Object, _now: datetime) -> str:
    labels = _of(obj, "metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE) or "")
    return _join(sorted(roles - {""})) or NONE


def _node_address(kind: str) -> Cell:
    def cell(obj: Object, _now: datetime) -> str:
        found = _of(obj, "status", "addresses") or ()
        return next((a["address"] for a in found if a.get("type") == kind), NONE)

    return cell


def _kernel(obj: Object, _now: datetime) -> str:
    info = _of(obj, "status", "nodeInfo") or {}
    architecture = f" ({info['architecture']})" if info.get("architecture") else ""
    return f"{info.get('kernelVersion') or '<unknown>'}{architecture}"


def _node_info(name: str) -> Cell:
    return lambda obj, _now: _of(obj, "status", "nodeInfo", name) or "<unknown>"


def _access_modes(modes: Sequence[str] | None) -> str:
    return _join([short for mode, short in _ACCESS_MODES if mode in (modes or ())])


def _phase(obj: Object, _now: datetime) -> str:
    if _of(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(_of(obj, "status", "phase") or "")


def _claim(obj: Object, _now: datetime) -> str:
    given = _of(obj, "spec", "claimRef")
    return f"{given.get('namespace', '')}/{given.get('name', '')}" if given else ""


def _if_bound(cell: Cell) -> Cell:
    return lambda obj, now: cell(obj, now) if _of(obj, "spec", "volumeName") else ""


def _default_name(annotation: str) -> Column:
    def cell(obj: Object, _now: datetime) -> str:
        name, found = obj["metadata"].get("name", ""), obj["metadata"].get("annotations") or {}
        return f"{name} (default)" if found.get(annotation) == "true" else name

    return Column("Name", "string", "name", "Name of the object.", cell=cell)


def _owner(obj: Object, _now: datetime) -> str:
    for owner in _of(obj, "metadata", "ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower()
            return f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"
    return NONE


# Autoscaling and others


def _reference(obj: Object, _now: datetime) -> str:
    target = _of(obj, "spec", "scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _int_or_string(*path: str) -> Cell:
    def cell(obj: Object, _now: datetime) -> str:
        value = _of(obj, *path)
        return "N/A" if value is None else str(value)

    return cell


def _dangling(obj: Object, _now: datetime) -> str:
    conditions = _of(obj, "status", "conditions") or ()
    return next((str(c.get("status")) for c in conditions if c.get("type") == "Dangling"), "?")


def _served_by(obj: Object, _now: datetime) -> str:
    service = _of(obj, "spec", "service")
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _is_available(obj: Object, _now: datetime) -> str:
    for condition in _of(obj, "status", "conditions") or ():
        if condition.get("type") == "Available":
            is_true = condition.get("status") == "True"
            return "True" if is_true else f"{condition['status']} ({condition.get('reason', '')})"
    return "Unknown"


def _claim_state(obj: Object, _now: datetime) -> str:
    status = obj.get("status") or {}
    found = ["deleted"] if _of(obj, "metadata", "deletionTimestamp") else []
    if status.get("allocation") is None:
        found += ["pending"] if not found else []
    else:
        found.append("allocated")
        found += ["reserved"] if status.get("reservedFor") else []
    return _join(found)


def _min_replicas(obj: Object, _now: datetime) -> str:
    value = _of(obj, "spec", "minReplicas")
    return UNSET if value is None else str(value)


_DESIRED = (
    _number("Desired", "spec", "replicas"),
    _number("Current", "status", "replicas"),
    _number("Ready", "status", "readyReplicas"),
    AGE,
    *_containers(*_TEMPLATE),
)
_READY = _column("Ready", _ratio(("status", "readyReplicas"), ("spec", "replicas")))
_MODE = _text("VolumeMode", "spec", "volumeMode", default=UNSET, wide=True)
_CLASS = _text("VolumeAttributesClass", "spec", "volumeAttributesClassName", default=UNSET)
_LIMITED = ("spec", "limited")
_QUEUING = (*_LIMITED, "limitResponse", "queuing")

_TABLES: dict[tuple[str, str], Columns] = {
    ("", "pods"): tuple(
        _column(title, cell, wide=wide) for title, cell, wide in pod_columns.COLUMNS
    ),
    ("", "podtemplates"): (
        *(_column(c.name, c.cell or _owner) for c in _containers("template", "spec")),
        _column("Pod Labels", lambda o, _: _labels(_of(o, "template", "metadata", "labels"))),
    ),
    ("", "replicationcontrollers"): (
        *_DESIRED,
        _column("Selector", lambda o, _: _labels(_of(o, "spec", "selector")), wide=True),
    ),
    ("", "services"): (
        _text("Type", "spec", "type"),
        _column("Cluster-IP", lambda o, _: (_of(o, "spec", "clusterIPs") or [NONE])[0]),
        _column("External-IP", _external_ip),
        _column("Port(s)", _service_ports),
        AGE,
        _column("Selector", lambda o, _: _labels(_of(o, "spec", "selector")), wide=True),
    ),
    ("", "limitranges"): (CREATED_AT,),
    ("", "endpoints"): (_column("Endpoints", _endpoints), AGE),
    ("", "nodes"): (
        _column("Status", _node_status),
        _column("Roles", _node_roles),
        AGE,
        _text("Version", "status", "nodeInfo", "kubeletVersion"),
        _column("Internal-IP", _node_address("InternalIP"), wide=True),
        _column("External-IP", _node_address("ExternalIP"), wide=True),
        _column("OS-Image", _node_info("osImage"), wide=True),
        _column("Kernel-Version", _kernel, wide=True),
        _column("Container-Runtime", _node_info("containerRuntimeVersion"), wide=True),
    ),
    ("", "persistentvolumes"): (
        _text("Capacity", "spec", "capacity", "storage", default="0"),
        _column("Access Modes", lambda o, _: _access_modes(_of(o, "spec", "accessModes"))),
        _text("Reclaim Policy", "spec", "persistentVolumeReclaimPolicy"),
        _column("Status", _phase),
        _column("Claim", _claim),
        _text("StorageClass", "spec", "storageClassName"),
        _CLASS,
        _text("Reason", "status", "reason"),
        AGE,
        _MODE,
    ),
    ("", "persistentvolumeclaims"): (
        _column("Status", _phase),
        _text("Volume", "spec", "volumeName"),
        _column("Capacity", _if_bound(field("status", "capacity", "storage", default="0"))),
        _column(
            "Access Modes",
            _if_bound(lambda o, _: _access_modes(_of(o, "status", "accessModes"))),
        ),
        _text("StorageClass", "spec", "storageClassName"),
        _CLASS,
        AGE,
        _MODE,
    ),
    ("apps", "controllerrevisions"): (
        _column("Controller", _owner),
        _text("Revision", "revision", default=0),
        AGE,
    ),
    ("apps", "deployments"): (
        _READY,
        _text("Up-to-date", "status", "updatedReplicas", default=0),
        _text("Available", "status", "availableReplicas", default=0),
        AGE,
        *_containers(*_TEMPLATE),
        _SELECTOR,
    ),
    ("apps", "daemonsets"): (
        _number("Desired", "status", "desiredNumberScheduled"),
        _number("Current", "status", "currentNumberScheduled"),
        _number("Ready", "status", "numberReady"),
        _number("Up-to-date", "status", "updatedNumberScheduled"),
        _number("Available", "status", "numberAvailable"),
        _column("Node Selector", lambda o, _: _labels(_of(o, *_TEMPLATE, "nodeSelector"))),
        AGE,
        *_containers(*_TEMPLATE),
        _SELECTOR,
    ),
    ("apps", "replicasets"): (*_DESIRED, _SELECTOR),
    ("apps", "statefulsets"): (_READY, AGE, *_containers(*_TEMPLATE)),
    ("autoscaling", "horizontalpodautoscalers"): (
        _column("Reference", _reference),
        _column("Targets", targets),
        _column("MinPods", _min_replicas),
        _text("MaxPods", "spec", "maxReplicas", default=0),
        _text("Replicas", "status", "currentReplicas", default=0),
        AGE,
    ),
    ("batch", "jobs"): (
        _column("Status", _job_status),
        _column("Completions", _job_completions),
        _column("Duration", _job_duration),
        AGE,
        *_containers(*_TEMPLATE),
        _SELECTOR,
    ),
    ("batch", "cronjobs"): (
        _text("Schedule", "spec", "schedule"),
        _text("Timezone", "spec", "timeZone", default=NONE),
        _column("Suspend", _go_bool("spec", "suspend"), "boolean"),
        _column("Active", lambda o, _: len(_of(o, "status", "active") or ()), "integer"),
        _column("Last Schedule", _last_schedule),
        AGE,
        *_containers("spec", "jobTemplate", *_TEMPLATE),
        _column("Selector", _selector("spec", "jobTemplate", "spec", "selector"), wide=True),
    ),
    ("discovery.k8s.io", "endpointslices"): (
        _text("AddressType", "addressType"),
        _column("Ports", _slice_ports),
        _column("Endpoints", _slice_endpoints),
        AGE,
    ),
    ("apiregistration.k8s.io", "apiservices"): (
        _column("Service", _served_by),
        _column("Available", _is_available),
        AGE,
    ),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): (
        _text("PriorityLevel", "spec", "priorityLevelConfiguration", "name"),
        _number("MatchingPrecedence", "spec", "matchingPrecedence"),
        _text("DistinguisherMethod", "spec", "distinguisherMethod", "type", default=NONE),
        AGE,
        _column("MissingPL", _dangling),
    ),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): (
        _text("Type", "spec", "type"),
        _text("NominalConcurrencyShares", *_LIMITED, "nominalConcurrencyShares", default=NONE),
        _text("Queues", *_QUEUING, "queues", default=NONE),
        _text("HandSize", *_QUEUING, "handSize", default=NONE),
        _text("QueueLengthLimit", *_QUEUING, "queueLengthLimit", default=NONE),
        AGE,
    ),
    ("networking.k8s.io", "ingressclasses"): (
        _text("Controller", "spec", "controller"),
        _column("Parameters", _parameters),
        AGE,
    ),
    ("networking.k8s.io", "ingresses"): (
        _text("Class", "spec", "ingressClassName", default=NONE),
        _column("Hosts", _hosts),
        _column("Address", lambda o, _: _addresses(o)),
        _column("Ports", _ingress_ports),
        AGE,
    ),
    ("networking.k8s.io", "ipaddresses"): (_column("ParentRef", _parent), AGE),
    ("networking.k8s.io", "networkpolicies"): (
        _column("Pod-Selector", _selector("spec", "podSelector")),
        AGE,
    ),
    ("networking.k8s.io", "servicecidrs"): (
        _column("CIDRs", lambda o, _: _join(_of(o, "spec", "cidrs") or ())),
        AGE,
    ),
    ("node.k8s.io", "runtimeclasses"): (_text("Handler", "handler"), AGE),
    ("policy", "poddisruptionbudgets"): (
        _column("Min Available", _int_or_string("spec", "minAvailable")),
        _column("Max Unavailable", _int_or_string("spec", "maxUnavailable")),
        _number("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    ),
    ("resource.k8s.io", "resourceclaims"): (_column("State", _claim_state), AGE),
    ("scheduling.k8s.io", "priorityclasses"): (
        _number("Value", "value"),
        _flag("Global-Default", "globalDefault"),
        AGE,
        _text("PreemptionPolicy", "preemptionPolicy"),
    ),
    ("storage.k8s.io", "csidrivers"): (
        _flag("AttachRequired", "spec", "attachRequired", default=True),
        _flag("PodInfoOnMount", "spec", "podInfoOnMount"),
        _flag("StorageCapacity", "spec", "storageCapacity"),
        _column("TokenRequests", lambda o, _: _audiences(_of(o, "spec", "tokenRequests"))),
        _flag("RequiresRepublish", "spec", "requiresRepublish"),
        _column("Modes", lambda o, _: _join(_of(o, "spec", "volumeLifecycleModes") or (NONE,))),
        AGE,
    ),
    ("storage.k8s.io", "csinodes"): (
        _column("Drivers", lambda o, _: len(_of(o, "spec", "drivers") or ()), "integer"),
        AGE,
    ),
    ("storage.k8s.io", "csistoragecapacities"): (
        _text("StorageClassName", "storageClassName"),
        _text("Capacity", "capacity", default=UNSET),
    ),
    ("storage.k8s.io", "storageclasses"): (
        _text("Provisioner", "provisioner"),
        _text("ReclaimPolicy", "reclaimPolicy", default="Delete"),
        _text("VolumeBindingMode", "volumeBindingMode", default="Immediate"),
        _text("AllowVolumeExpansion", "allowVolumeExpansion", default=False),
        AGE,
    ),
    ("storage.k8s.io", "volumeattachments"): (
        _text("Attacher", "spec", "attacher"),
        _text("PV", "spec", "source", "persistentVolumeName"),
        _text("Node", "spec", "nodeName"),
        _flag("Attached", "status", "attached"),
        AGE,
    ),
    ("storage.k8s.io", "volumeattributesclasses"): (_text("DriverName", "driverName"), AGE),
}


def _audiences(requests: Sequence[Object] | None) -> str:
    return UNSET if requests is None else _join([one.get("audience", "") for one in requests])


_NAMES = {
    ("networking.k8s.io", "ingressclasses"): _default_name(
        "ingressclass.kubernetes.io/is-default-class"
    ),
    ("storage.k8s.io", "storageclasses"): _default_name(
        "storageclass.kubernetes.io/is-default-class"
    ),
}
"""Kinds of which one can be the default."""
