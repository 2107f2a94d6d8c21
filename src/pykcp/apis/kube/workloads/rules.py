"""How Kubernetes' kinds for workloads differ from other custom resources.

A CRD or a schema that carries the annotation `core.kcp.io/kubernetes-kind` defines one of them. They get
Kubernetes' defaults and checks across fields, a first status, and metadata that can be changed with the
status. Anyone may mark a CRD so, with any schema: objects of another form are rejected, not trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from pykcp.apis.kube.validation.rules import Facts, KindRules, keep, keep_metadata_for_status
from pykcp.apis.kube.workloads import controller_rules as controllers
from pykcp.apis.kube.workloads import other_rules as others
from pykcp.apis.kube.workloads import pod_rules as pods
from pykcp.apis.kube.workloads import service_rules as services
from pykcp.apis.kube.workloads.forms import WRONG_FORM
from pykcp.apis.kube.workloads.kept import KEPT_BY_STATUS, METADATA_KEPT_BY_STATUS
from pykcp.apis.kube.workloads.limit_ranges import default_limit_range
from pykcp.apis.kube.workloads.network_checks import network_policy_errors
from pykcp.machinery.status import FieldError, duplicate, invalid
from pykcp.types import Object

Check = Callable[[Object, Object | None], list[FieldError]]
_DUPLICATE = duplicate("", "").reason
_NAME = "metadata.name"


def _leave(_: Object) -> None:
    return None


def _admit(_: Object, __: Facts) -> None:
    return None


def _keep_nothing(_: Object, __: Object) -> None:
    return None


def _accept(_: Object, __: Object | None) -> list[FieldError]:
    return []


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    default: Callable[[Object], None] = _leave
    """Defaults that depend on several fields, in place; those of single fields are in the schema."""
    admit: Callable[[Object, Facts], None] = _admit
    """What is added to a new object only."""
    check: Check = _accept
    status: Object | None = None
    """Of a new object; None: as the object says, where a client may say it."""
    creates_on_update: bool = False
    complete: Callable[[Object, Object], None] = _keep_nothing
    """What is added to an object that replaces the second one."""
    check_name: Callable[[str], list[str]] | None = None
    """What is wrong with a name; None: it has to be one of DNS."""

    def check_safely(self, new: Object, old: Object | None, plural: str) -> list[FieldError]:
        """Objects of another form are rejected as a whole."""
        try:
            return self.check(new, old)
        except WRONG_FORM:
            return [invalid("spec", new.get("spec"), f"must have the form of {plural}")]

    def default_safely(self, obj: Object) -> None:
        """Objects of another form stay as they are: the checks reject them."""
        try:
            self.default(obj)
        except WRONG_FORM:
            return

    def admit_safely(self, obj: Object, facts: Facts) -> bool:
        """False if the object has another form."""
        try:
            self.admit(obj, facts)
        except WRONG_FORM:
            return False
        return True

    def complete_safely(self, new: Object, old: Object) -> None:
        """The checks reject an object of another form."""
        with suppress(*WRONG_FORM):
            self.complete(new, old)


def _template(*path: str) -> Callable[[Object], None]:
    return lambda obj: pods.default_template(obj, *path)


def _job(job: Object) -> None:
    pods.default_template(job, "spec", "template")
    controllers.default_job(job)


def _replication_controller(controller: Object) -> None:
    pods.default_template(controller, "spec", "template")
    controllers.default_replication_controller(controller)


def _rolling(field: str, **values: str | int) -> Callable[[Object], None]:
    def default(obj: Object) -> None:
        pods.default_template(obj, "spec", "template")
        controllers.default_rolling_update(obj, field, values)

    return default


def _cron_job(job: Object) -> None:
    template = (job.get("spec") or {}).get("jobTemplate")
    if isinstance(template, dict):
        template["metadata"] = template.get("metadata") or {}
    pods.default_template(job, "spec", "jobTemplate", "spec", "template")


def _stateful_set(stateful_set: Object) -> None:
    _rolling("updateStrategy", partition=0)(stateful_set)
    others.default_claim_templates(stateful_set)


_IN_SPEC = _template("spec", "template")
_BALANCER: Object = {"loadBalancer": {}}
_PENDING: Object = {"phase": "Pending"}
_NETWORKING = "networking.k8s.io"
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"

_KINDS: dict[tuple[str, str], WorkloadKind] = {
    ("", "pods"): WorkloadKind(
        pods.default_pod, pods.admit_pod, pods.pod_errors, complete=pods.complete_pod
    ),
    ("", "podtemplates"): WorkloadKind(_template("template")),
    ("", "replicationcontrollers"): WorkloadKind(_replication_controller, status={"replicas": 0}),
    ("", "services"): WorkloadKind(
        services.default_service, check=services.service_errors, status=_BALANCER
    ),
    ("", "persistentvolumeclaims"): WorkloadKind(check=services.claim_errors, status=_PENDING),
    ("", "persistentvolumes"): WorkloadKind(status=_PENDING),
    ("", "nodes"): WorkloadKind(others.default_node),
    ("", "endpoints"): WorkloadKind(creates_on_update=True),
    ("", "limitranges"): WorkloadKind(default_limit_range, creates_on_update=True),
    ("apps", "deployments"): WorkloadKind(
        _rolling("strategy", maxSurge="25%", maxUnavailable="25%"),
        check=controllers.deployment_errors,
        status={},
    ),
    ("apps", "replicasets"): WorkloadKind(
        _IN_SPEC, check=controllers.replica_set_errors, status={"replicas": 0}
    ),
    ("apps", "statefulsets"): WorkloadKind(
        _stateful_set,
        check=controllers.stateful_set_errors,
        status={"availableReplicas": 0, "replicas": 0},
    ),
    ("apps", "daemonsets"): WorkloadKind(
        _rolling("updateStrategy", maxSurge=0, maxUnavailable=1),
        lambda obj, _facts: others.default_daemon_set(obj),
        controllers.daemon_set_errors,
        complete=others.default_daemon_set,
        status={
            "currentNumberScheduled": 0,
            "desiredNumberScheduled": 0,
            "numberMisscheduled": 0,
            "numberReady": 0,
        },
    ),
    ("batch", "jobs"): WorkloadKind(_job, controllers.admit_job, controllers.job_errors, {}),
    ("batch", "cronjobs"): WorkloadKind(
        _cron_job,
        check=controllers.cron_job_errors,
        status={},
    ),
    ("autoscaling", "horizontalpodautoscalers"): WorkloadKind(
        services.default_autoscaler,
        check=services.autoscaler_errors,
        status={"currentMetrics": None, "desiredReplicas": 0},
    ),
    (_NETWORKING, "ingresses"): WorkloadKind(check=services.ingress_errors, status=_BALANCER),
    (_NETWORKING, "networkpolicies"): WorkloadKind(
        services.default_network_policy, check=network_policy_errors
    ),
    ("policy", "poddisruptionbudgets"): WorkloadKind(
        check=services.budget_errors,
        status={
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "disruptionsAllowed": 0,
            "expectedPods": 0,
        },
    ),
    (_NETWORKING, "ingressclasses"): WorkloadKind(others.default_ingress_class),
    (_NETWORKING, "ipaddresses"): WorkloadKind(check_name=others.address_name_errors),
    (_NETWORKING, "servicecidrs"): WorkloadKind(status={}),
    ("discovery.k8s.io", "endpointslices"): WorkloadKind(
        others.default_endpoint_slice, complete=others.count_labels
    ),
    ("apiregistration.k8s.io", "apiservices"): WorkloadKind(status={}),
    (_FLOW_CONTROL, "flowschemas"): WorkloadKind(others.default_flow_schema, status={}),
    (_FLOW_CONTROL, "prioritylevelconfigurations"): WorkloadKind(
        others.default_priority_level, check=others.priority_level_errors, status={}
    ),
    ("resource.k8s.io", "resourceclaims"): WorkloadKind(others.default_device_claim, status={}),
    ("resource.k8s.io", "resourceclaimtemplates"): WorkloadKind(
        others.default_device_claim_template
    ),
    ("resource.k8s.io", "resourceslices"): WorkloadKind(others.default_device_slice),
    ("storage.k8s.io", "volumeattachments"): WorkloadKind(status={"attached": False}),
    ("scheduling.k8s.io", "priorityclasses"): WorkloadKind(check=services.priority_class_errors),
    ("storage.k8s.io", "storageclasses"): WorkloadKind(check=services.storage_class_errors),
}
_OTHER = WorkloadKind()
_STATUS_OF_VERSIONS: dict[str, Object] = {
    "autoscaling/v1": {"currentReplicas": 0, "desiredReplicas": 0}
}
"""Of new objects, where it is not that of the kind's newest version."""
_KEEPS_STATUS = frozenset((("", "nodes"),))
"""Kinds whose new objects may have a status: kubelets register themselves with one."""
_WITHOUT_GENERATION = frozenset(
    (
        *(
            ("", plural)
            for plural in (
                "endpoints", "limitranges", "nodes", "persistentvolumeclaims", "persistentvolumes",
                "services",
            )
        ),
        *(
            ("storage.k8s.io", plural)
            for plural in (
                "csidrivers", "csinodes", "csistoragecapacities", "storageclasses",
                "volumeattachments", "volumeattributesclasses",
            )
        ),
        ("apiregistration.k8s.io", "apiservices"),
        ("apps", "controllerrevisions"),
        ("autoscaling", "horizontalpodautoscalers"),
        (_NETWORKING, "ipaddresses"),
        (_NETWORKING, "servicecidrs"),
        ("node.k8s.io", "runtimeclasses"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourceclaimtemplates"),
    )
)  # fmt: skip
"""Kinds whose objects do not count the changes of their spec."""


def workload_kind(group: str, plural: str) -> WorkloadKind:
    return _KINDS.get((group, plural), _OTHER)


def workload_rules(
    base: KindRules, group: str, plural: str, not_null: frozenset[str] = frozenset()
) -> KindRules:
    """The rules of a custom resource, extended by those of one of Kubernetes' kinds. `not_null`:
    fields of the status in which the schema, as that of a physical cluster, does not accept null.
    """
    kind = workload_kind(group, plural)
    first_status = _first_status(kind, not_null)
    has_generation = (group, plural) not in _WITHOUT_GENERATION

    def prepare_for_create(obj: Object, facts: Facts) -> None:
        status = obj.get("status")
        base.prepare_for_create(obj, facts)
        if not has_generation:
            obj["metadata"].pop("generation", None)
        kind.default_safely(obj)
        if not kind.admit_safely(obj, facts):
            return  # the checks reject it
        if (group, plural) in _KEEPS_STATUS and status is not None:
            obj["status"] = status
        elif kind.status is not None:
            obj["status"] = {**_STATUS_OF_VERSIONS.get(obj.get("apiVersion", ""), first_status)}

    def prepare_for_update(new: Object, old: Object, facts: Facts) -> None:
        kind.default_safely(new)
        kind.complete_safely(new, old)
        base.prepare_for_update(new, old, facts)
        if not has_generation:
            new["metadata"].pop("generation", None)

    body = base.body
    assert body is not None

    def with_checks(found: list[FieldError], new: Object, old: Object | None) -> list[FieldError]:
        """Names that occur twice are worded by the checks; other errors of the schema come alone."""
        if any(error.reason != _DUPLICATE for error in found):
            return found
        return kind.check_safely(new, old, plural) or found

    def whole_body(new: Object, old: Object | None, facts: Facts) -> list[FieldError]:
        found = body(new, old, facts)
        return with_checks(_named(kind, found, new) if old is None else found, new, old)

    return replace(
        base,
        prepare_for_create=prepare_for_create,
        prepare_for_update=prepare_for_update,
        validate=lambda new, facts: with_checks(
            _named(kind, base.validate(new, facts), new), new, None
        ),
        validate_update=lambda new, old, facts: with_checks(
            base.validate_update(new, old, facts), new, old
        ),
        body=whole_body,
        subresources=_subresources(base, group, plural),
        unconditional_update=True,
        create_on_update=kind.creates_on_update,
    )


def _named(kind: WorkloadKind, found: list[FieldError], new: Object) -> list[FieldError]:
    """The errors of a new object whose name follows another rule."""
    if kind.check_name is None:
        return found
    name = new["metadata"].get("name", "")
    wrong = [invalid(_NAME, name, why) for why in kind.check_name(name)]
    return wrong + [error for error in found if error.path != _NAME]


def _first_status(kind: WorkloadKind, not_null: frozenset[str]) -> Object:
    """What a new object has; fields that could only be null are left out."""
    return {
        name: value
        for name, value in (kind.status or {}).items()
        if value is not None or name not in not_null
    }


def _subresources(base: KindRules, group: str, plural: str) -> dict[str, KindRules]:
    made = dict(base.subresources)
    status = made.get("status")
    if status is not None:
        made["status"] = replace(
            status,
            prepare_for_update=_keeping_status((group, plural)),
            unconditional_update=True,
        )
        if (group, plural) == ("", "pods"):
            made["ephemeralcontainers"] = replace(
                status, prepare_for_update=_only_ephemeral_containers, unconditional_update=True
            )
            made["resize"] = replace(
                status,
                prepare_for_update=_only_resources,
                validate_update=lambda new, old, facts: (
                    status.validate_update(new, old, facts) or pods.resize_errors(new, old)
                ),
                body=None,
                unconditional_update=True,
            )
    return made


def _keeping_status(kind: tuple[str, str]) -> Callable[[Object, Object, Facts], None]:
    """The old object with the new status; unlike in other custom resources, most metadata follow, too."""
    kept = ("deletionTimestamp", *KEPT_BY_STATUS.get(kind, ()))

    def prepare(new: Object, old: Object, _: Facts) -> None:
        keep(new, old, *(name for name in {*new, *old} if name not in ("metadata", "status")))
        if kind in METADATA_KEPT_BY_STATUS:
            keep_metadata_for_status(new, old)
        else:
            keep(new["metadata"], old["metadata"], *kept)

    return prepare


def _only_resources(new: Object, old: Object, _: Facts) -> None:
    given = new.get("spec") or {}
    keep(new, old, *(name for name in {*new, *old} if name != "metadata"))
    try:
        new["spec"] = pods.resized(old.get("spec") or {}, given)
    except WRONG_FORM:
        return  # nothing is changed


def _only_ephemeral_containers(new: Object, old: Object, _: Facts) -> None:
    given = (new.get("spec") or {}).get("ephemeralContainers")
    keep(new, old, *(name for name in {*new, *old} if name != "metadata"))
    spec = {**(old.get("spec") or {})}
    if given:
        spec["ephemeralContainers"] = given
    new["spec"] = spec
