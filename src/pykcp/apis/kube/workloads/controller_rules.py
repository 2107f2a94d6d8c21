"""Defaults and checks of the kinds that make pods: deployments, jobs and the like."""

from __future__ import annotations

from typing import Any

from pykcp.apis.kube.validation.rules import Facts
from pykcp.apis.kube.workloads.pod_rules import restart_policy_errors, template_errors
from pykcp.apis.kube.workloads.schedules import schedule_problem
from pykcp.machinery.labels import SelectorError, from_label_selector
from pykcp.machinery.status import FieldError, forbidden, invalid, required
from pykcp.types import Object

_TEMPLATE = "spec.template"
_STATEFUL_FIELDS = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_STATEFUL_UPDATE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)
_JOB_FIXED = (
    "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy",
    "successPolicy",
)  # fmt: skip
_IMMUTABLE = "field is immutable"
_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_JOB_NAME = "batch.kubernetes.io/job-name"
_CRON_NAME_MAX = 52


def deployment_errors(new: Object, old: Object | None) -> list[FieldError]:
    errors = _selecting_errors(new, "deployment")
    strategy = new["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate"):
        errors.append(
            forbidden(
                "spec.strategy.rollingUpdate",
                "may not be specified when strategy `type` is 'Recreate'",
            )
        )
    return errors + _fixed_errors(new, old, "selector")


def replica_set_errors(new: Object, old: Object | None) -> list[FieldError]:
    return _selecting_errors(new, "deployment") + _fixed_errors(new, old, "selector")


def daemon_set_errors(new: Object, old: Object | None) -> list[FieldError]:
    return _selecting_errors(new, "daemonset") + _fixed_errors(new, old, "selector")


def stateful_set_errors(new: Object, old: Object | None) -> list[FieldError]:
    errors = _selecting_errors(new, "statefulset")
    if old is not None and _without(new, _STATEFUL_FIELDS) != _without(old, _STATEFUL_FIELDS):
        errors.append(forbidden("spec", _STATEFUL_UPDATE))
    return errors


def _without(obj: Object, names: tuple[str, ...]) -> Object:
    return {name: value for name, value in obj["spec"].items() if name not in names and value}


def _selecting_errors(obj: Object, kind: str) -> list[FieldError]:
    """The selector is there and selects the pods of the template."""
    spec = obj["spec"]
    selector, template = spec.get("selector") or {}, spec.get("template") or {}
    errors: list[FieldError] = []
    try:
        parsed = from_label_selector(selector)
    except SelectorError as error:
        return [invalid("spec.selector", selector, str(error))]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if parsed.empty:
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    elif not parsed.matches(labels):
        why = "`selector` does not match template `labels`"
        errors.append(invalid(f"{_TEMPLATE}.metadata.labels", labels, why))
    claims = (one["metadata"]["name"] for one in spec.get("volumeClaimTemplates") or ())
    errors += template_errors(template, _TEMPLATE, claims) + _negative(spec, "replicas", "spec")
    return errors + restart_policy_errors(template, _TEMPLATE, ("Always",))


def _fixed_errors(new: Object, old: Object | None, *names: str) -> list[FieldError]:
    if old is None:
        return []
    return [
        invalid(f"spec.{name}", new["spec"].get(name), _IMMUTABLE)
        for name in names
        if (new["spec"].get(name) or None) != ((old.get("spec") or {}).get(name) or None)
    ]


def default_replication_controller(controller: Object) -> None:
    """Labels and selector are those of the template, where they are missing."""
    template = (controller.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    if labels:
        controller["spec"]["selector"] = controller["spec"].get("selector") or dict(labels)
        controller["metadata"]["labels"] = controller["metadata"].get("labels") or dict(labels)


def default_job(job: Object) -> None:
    spec = job.get("spec")
    if not isinstance(spec, dict):
        return
    if spec.get("parallelism") == 1 and spec.get("completions") is None:
        spec["completions"] = 1
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)


def admit_job(job: Object, _: Facts) -> None:
    """The selector of the job's own pods, unless the user has chosen one."""
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    uid, name = job["metadata"].get("uid", ""), job["metadata"].get("name", "")
    template = spec["template"]
    metadata = template["metadata"] = template.get("metadata") or {}
    labels = metadata["labels"] = metadata.get("labels") or {}
    labels |= {
        _CONTROLLER_UID: uid,
        "controller-uid": uid,
        _JOB_NAME: name,
        "job-name": name,
    }
    spec.setdefault("selector", {}).setdefault("matchLabels", {})[_CONTROLLER_UID] = uid
    if not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def job_errors(new: Object, old: Object | None) -> list[FieldError]:
    errors = job_spec_errors(new["spec"], "spec")
    if old is None:
        return errors
    errors += _fixed_errors(new, old, *_JOB_FIXED)
    if not old["spec"].get("suspend") and new["spec"]["template"] != old["spec"]["template"]:
        errors.append(invalid(_TEMPLATE, new["spec"]["template"], _IMMUTABLE))
    return errors


def job_spec_errors(spec: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit"):
        errors += _negative(spec, name, path)
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    template, at = spec.get("template") or {}, f"{path}.template"
    errors += template_errors(template, at)
    return errors + restart_policy_errors(template, at, ("OnFailure", "Never"), is_job=True)


def _negative(spec: Object, name: str, path: str) -> list[FieldError]:
    value: Any = spec.get(name)
    if value is None or value >= 0:
        return []
    return [invalid(f"{path}.{name}", value, "must be greater than or equal to 0")]


def cron_job_errors(new: Object, _old: Object | None) -> list[FieldError]:
    spec, errors = new["spec"], []
    name = new["metadata"].get("name", "")
    if len(name) > _CRON_NAME_MAX:
        errors.append(invalid("metadata.name", name, "must be no more than 52 characters"))
    schedule = spec.get("schedule") or ""
    if not schedule:
        errors.append(required("spec.schedule"))
    else:
        problem = schedule_problem(schedule)
        if problem:
            errors.append(invalid("spec.schedule", schedule, problem))
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    return errors + job_spec_errors(template, "spec.jobTemplate.spec")
