"""Defaults and checks of the kinds that make pods: deployments, jobs and the like."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.apis.kube.validation.objectmeta import validate_label_selector, validate_labels
from pykcp.apis.kube.validation.rules import Facts
from pykcp.apis.kube.workloads.numbers import is_none_of, negative_errors, share_errors
from pykcp.apis.kube.workloads.pod_rules import restart_policy_errors, template_errors
from pykcp.apis.kube.workloads.schedules import schedule_problem, time_zone_problem
from pykcp.apis.kube.workloads.service_rules import claim_spec_errors
from pykcp.machinery import names
from pykcp.machinery.labels import SelectorError, from_label_selector
from pykcp.machinery.status import FieldError, forbidden, invalid, not_supported, required
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
_KIND_NAMES = {"deployment": "ReplicaSet", "daemonset": "DaemonSet", "statefulset": "StatefulSet"}
_UPDATES = ("RollingUpdate", "OnDelete")
_RETAINED = ("Retain", "Delete")
_REPLACEMENT = ("Failed", "TerminatingOrFailed")
_STRATEGIES = ("Recreate", "RollingUpdate")
_COMPLETION_MODES = ("NonIndexed", "Indexed")
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_JOB_NUMBERS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_MANY_PODS = 100_000


def deployment_errors(new: Object, old: Object | None) -> list[FieldError]:
    spec = new["spec"]
    errors = _selecting_errors(new, "deployment")
    errors += _strategy_errors(spec.get("strategy") or {}, "spec.strategy")
    errors += negative_errors(
        spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        why = "must be greater than minReadySeconds"
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, why))
    return errors + _fixed_errors(new, old, "selector")


def _strategy_errors(strategy: Object, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind not in (None, *_STRATEGIES):
        shown = {"Type": kind, "RollingUpdate": rolling}
        return [not_supported(path, shown, _STRATEGIES)]
    if kind == "Recreate":
        why = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden(f"{path}.rollingUpdate", why)] if rolling else []
    surge, missing = (rolling or {}).get("maxSurge"), (rolling or {}).get("maxUnavailable")
    errors: list[FieldError] = []
    at = f"{path}.rollingUpdate"
    if missing is not None:
        errors += share_errors(missing, f"{at}.maxUnavailable")
    if surge is not None:
        errors += share_errors(surge, f"{at}.maxSurge", is_bounded=False)
    if is_none_of(missing) and is_none_of(surge):
        why = "may not be 0 when `maxSurge` is 0"
        errors.append(invalid(f"{at}.maxUnavailable", missing, why))
    return errors


def replica_set_errors(new: Object, old: Object | None) -> list[FieldError]:
    errors = _selecting_errors(new, "deployment")
    errors += negative_errors(new["spec"], "spec", "minReadySeconds")
    return errors + _fixed_errors(new, old, "selector")


def daemon_set_errors(new: Object, old: Object | None) -> list[FieldError]:
    errors = _selecting_errors(new, "daemonset")
    update = new["spec"].get("updateStrategy") or {}
    rolling = update.get("rollingUpdate") or {}
    if update.get("type") not in (None, *_UPDATES):
        shown = {"Type": update["type"], "RollingUpdate": update.get("rollingUpdate")}
        errors.append(not_supported("spec.updateStrategy", shown, _UPDATES))
    elif is_none_of(rolling.get("maxUnavailable")) and is_none_of(rolling.get("maxSurge")):
        at = "spec.updateStrategy.rollingUpdate.maxUnavailable"
        errors.append(required(at, "cannot be 0 when maxSurge is 0"))
    errors += negative_errors(new["spec"], "spec", "minReadySeconds", "revisionHistoryLimit")
    return errors + _fixed_errors(new, old, "selector")


def stateful_set_errors(new: Object, old: Object | None) -> list[FieldError]:
    errors = [*_set_errors(new["spec"]), *_selecting_errors(new, "statefulset")]
    if old is not None and _without(new, _STATEFUL_FIELDS) != _without(old, _STATEFUL_FIELDS):
        errors.append(forbidden("spec", _STATEFUL_UPDATE))
    return errors


def _set_errors(spec: Object) -> Iterator[FieldError]:
    """What only a StatefulSet has."""
    management = spec.get("podManagementPolicy")
    if management not in (None, "OrderedReady", "Parallel"):
        why = "must be 'OrderedReady' or 'Parallel'"
        yield invalid("spec.podManagementPolicy", management, why)
    update = spec.get("updateStrategy") or {}
    kind, rolling = update.get("type"), update.get("rollingUpdate")
    if kind not in (None, "RollingUpdate", "OnDelete"):
        shown = {"Type": kind, "RollingUpdate": rolling}
        yield invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'")
    elif kind == "OnDelete" and rolling is not None:
        why = "only allowed for updateStrategy 'RollingUpdate'"
        yield invalid("spec.updateStrategy.rollingUpdate", rolling, why)
    else:
        yield from negative_errors(rolling or {}, "spec.updateStrategy.rollingUpdate", "partition")
    kept = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        if kept.get(name) not in (None, *_RETAINED):
            at = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            yield not_supported(at, kept[name], _RETAINED)
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        yield from claim_spec_errors(
            claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec"
        )
    yield from negative_errors(spec, "spec", "minReadySeconds")
    yield from negative_errors(spec.get("ordinals") or {}, "spec.ordinals", "start")
    if service := spec.get("serviceName"):
        problems = names.dns1123_label(service)
        yield from (invalid("spec.serviceName", service, why) for why in problems)


def _without(obj: Object, names: tuple[str, ...]) -> Object:
    return {name: value for name, value in obj["spec"].items() if name not in names and value}


def _selecting_errors(obj: Object, kind: str) -> list[FieldError]:
    """The selector is there and selects the pods of the template."""
    spec = obj["spec"]
    selector, template = spec.get("selector") or {}, spec.get("template") or {}
    errors = validate_label_selector(selector, "spec.selector")
    try:
        parsed = from_label_selector(selector)
    except SelectorError:
        return [*errors, invalid("spec.selector", selector, "invalid label selector")]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if spec.get("selector") is None:
        errors.append(required("spec.selector"))
    if parsed.empty and spec.get("selector") is not None:
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    elif parsed.empty or not parsed.matches(labels):
        why = "`selector` does not match template `labels`"
        errors.append(invalid(f"{_TEMPLATE}.metadata.labels", labels, why))
    claims = (one["metadata"]["name"] for one in spec.get("volumeClaimTemplates") or ())
    errors += validate_labels(labels, f"{_TEMPLATE}.labels")
    errors += template_errors(template, _TEMPLATE, claims)
    if (template.get("spec") or {}).get("activeDeadlineSeconds") is not None:
        why = f"activeDeadlineSeconds in {_KIND_NAMES[kind]} is not Supported"
        errors.append(forbidden(f"{_TEMPLATE}.spec.activeDeadlineSeconds", why))
    errors += negative_errors(spec, "spec", "replicas")
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


def default_rolling_update(obj: Object, field: str, values: Object) -> None:
    """How a rolling update goes on, where the object names no more than this strategy, or none.

    Clients in Go always write the field, as an empty object, which the default of the whole field
    does not reach.
    """
    strategy = (obj.get("spec") or {}).get(field)
    if isinstance(strategy, dict) and strategy.get("type") in (None, "", "RollingUpdate"):
        strategy["type"] = "RollingUpdate"
        if strategy.get("rollingUpdate") is None:
            strategy["rollingUpdate"] = {**values}


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
    errors += negative_errors(spec, path, *_JOB_NUMBERS)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        why = "when maxFailedIndexes is specified"
        errors.append(required(f"{path}.backoffLimitPerIndex", why))
    mode = spec.get("completionMode")
    if mode not in (None, *_COMPLETION_MODES):
        errors.append(not_supported(f"{path}.completionMode", mode, _COMPLETION_MODES))
    if mode == "Indexed":
        if spec.get("completions") is None:
            errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
        if (spec.get("parallelism") or 0) > _MANY_PODS:
            why = f"must be less than or equal to {_MANY_PODS} when completion mode is Indexed"
            errors.append(invalid(f"{path}.parallelism", spec["parallelism"], why))
    else:
        errors += [
            invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")
            for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
            if spec.get(name) is not None
        ]
    replaced = spec.get("podReplacementPolicy")
    if replaced not in (None, *_REPLACEMENT):
        errors.append(not_supported(f"{path}.podReplacementPolicy", replaced, _REPLACEMENT))
    manager = spec.get("managedBy")
    if manager is not None and "/" not in manager:
        why = 'must be a domain-prefixed path (such as "acme.io/foo")'
        errors.append(invalid(f"{path}.managedBy", manager, why))
    template, at = spec.get("template") or {}, f"{path}.template"
    errors += template_errors(template, at)
    return errors + restart_policy_errors(template, at, ("OnFailure", "Never"), is_job=True)


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
    errors += negative_errors(spec, "spec", "startingDeadlineSeconds")
    zone = spec.get("timeZone")
    if zone is not None and (problem := time_zone_problem(zone)):
        errors.append(invalid("spec.timeZone", zone, problem))
    policy = spec.get("concurrencyPolicy")
    if policy not in (None, *_CONCURRENCY):
        errors.append(not_supported("spec.concurrencyPolicy", policy, _CONCURRENCY))
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    errors += job_spec_errors(template, "spec.jobTemplate.spec")
    return [
        *errors,
        *negative_errors(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
    ]
