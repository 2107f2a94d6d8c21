"""LimitRanges: defaults of their own, and what they add to pods and demand of pods and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import add
from typing import Any

import orjson

from pykcp.apis.kube.validation.objectmeta import ANNOTATIONS_MAX
from pykcp.apis.kube.workloads.forms import WRONG_FORM
from pykcp.machinery.quantity import MILLI, Quantity, parse
from pykcp.machinery.status import Invalid, too_long
from pykcp.types import Object

ANNOTATION = "kubernetes.io/limit-ranger"
_MAX_MILLI = (2**63 - 1) // 1000
_POD_LEVEL = ("cpu", "memory")
Amounts = dict[str, Quantity]


def default_limit_range(obj: Object) -> None:
    """Limits of containers: the default limit is the maximum, the default request the default limit or the minimum."""
    for item in (obj.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        _fill(item, "default", item.get("max"))
        _fill(item, "defaultRequest", item.get("default"))
        _fill(item, "defaultRequest", item.get("min"))


def _fill(item: Object, name: str, source: Object | None) -> None:
    if source:
        item[name] = {**source, **(item.get(name) or {})}


def with_defaults(limit_ranges: Sequence[bytes], text: bytes) -> bytes:
    """A pod in JSON with all defaults; as it was if it is of another form. For worker processes."""
    pod: Object = orjson.loads(text)
    try:
        for one in limit_ranges:
            set_defaults(orjson.loads(one), pod)
    except WRONG_FORM:
        return text  # the checks reject it
    made: bytes = orjson.dumps(pod)
    return made


def first_problems(limit_ranges: Sequence[bytes], plural: str, text: bytes) -> list[str]:
    """What the first LimitRange that an object breaks has against it. For worker processes."""
    obj: Object = orjson.loads(text)
    find = pod_problems if plural == "pods" else claim_problems
    for one in limit_ranges:
        try:
            problems = find(orjson.loads(one), obj)
        except WRONG_FORM:
            problems = ["it does not have the form that LimitRanges are for"]
        if problems:
            return problems
    return []


# --- pods get defaults


def set_defaults(limit_range: Object, pod: Object) -> None:
    """Requests and limits of containers that name none, and an annotation that says which.

    Invalid if that becomes longer than annotations may be.
    """
    requests: Object = {}
    limits: Object = {}
    for item in _items(limit_range, "Container"):
        requests |= item.get("defaultRequest") or {}
        limits |= item.get("default") or {}
    done: list[str] = []
    length = 0
    spec = pod["spec"]
    for group, word in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(group) or ():
            whose = f"for {word} {container.get('name') or ''}"
            for field, values, what in (
                ("requests", requests, "request"),
                ("limits", limits, "limit"),
            ):
                if added := _add_missing(container, field, values):
                    done.append(f"{', '.join(added)} {what} {whose}")
                    length += len(done[-1])
                    if length > ANNOTATIONS_MAX:
                        name = (pod.get("metadata") or {}).get("name") or ""
                        errors = [too_long("metadata.annotations", ANNOTATIONS_MAX)]
                        raise Invalid.fields("", "Pod", name, errors)
    if done:
        metadata = pod.setdefault("metadata", {})
        notes = metadata.get("annotations") or {}
        text = f"LimitRanger plugin set: {'; '.join(done)}"
        metadata["annotations"] = {**notes, ANNOTATION: text}


def _add_missing(container: Object, name: str, values: Object) -> list[str]:
    resources = container.get("resources") or {}
    known = resources.get(name) or {}
    added = sorted(values.keys() - known.keys())
    if added:
        container["resources"] = resources
        resources[name] = {**known, **{key: values[key] for key in added}}
    return added


# --- and are checked


def pod_problems(limit_range: Object, pod: Object) -> list[str]:
    """How a pod breaks a LimitRange."""
    spec = pod["spec"]
    found: list[str] = []
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                own = container.get("resources") or {}
                requests, limits = _amounts(own.get("requests")), _amounts(own.get("limits"))
                found += _problems("Container", item, requests, limits)
        elif item.get("type") == "Pod":
            totals = (total(spec, name) for name in ("requests", "limits"))
            found += _problems("Pod", item, *totals)
    return found


def claim_problems(limit_range: Object, claim: Object) -> list[str]:
    """How a PersistentVolumeClaim breaks a LimitRange."""
    requests = _amounts((claim["spec"].get("resources") or {}).get("requests"))
    kind = "PersistentVolumeClaim"
    found: list[str] = []
    for item in _items(limit_range, kind):
        for name, enforced in _amounts(item.get("min")).items():
            found += _below(kind, name, enforced, requests, {})
        for name, enforced in _amounts(item.get("max")).items():
            found += _above_request(kind, name, enforced, requests)
    return found


def in_one(problems: list[str]) -> str:
    """Several problems as one text, each once."""
    known = list(dict.fromkeys(problems))
    return known[0] if len(known) == 1 else f"[{', '.join(known)}]"


def _items(limit_range: Object, kind: str) -> Iterator[Object]:
    items = (limit_range.get("spec") or {}).get("limits") or ()
    return (item for item in items if item.get("type") == kind)


def _amounts(values: Object | None) -> Amounts:
    return {name: parse(value) for name, value in sorted((values or {}).items())}


def _problems(kind: str, item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, enforced in _amounts(item.get("min")).items():
        yield from _below(kind, name, enforced, requests, limits)
    for name, enforced in _amounts(item.get("max")).items():
        yield from _above(kind, name, enforced, requests, limits)
    for name, enforced in _amounts(item.get("maxLimitRequestRatio")).items():
        yield from _ratio(kind, name, enforced, requests, limits)


def _comparable(*quantities: Quantity | None) -> list[int]:
    """The values in thousandths, or in whole units if one is too large for that."""
    known = [one or Quantity(0, 0) for one in quantities]
    if all(one.value <= _MAX_MILLI for one in known):
        return [one.scaled(MILLI) for one in known]
    return [one.value for one in known]


def _below(
    kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    request, limit = requests.get(name), limits.get(name)
    requested, limited, least = _comparable(request, limit, enforced)
    text = f"minimum {name} usage per {kind} is {enforced}"
    if request is None:
        yield f"{text}.  No request is specified"
    elif requested < least:
        yield f"{text}, but request is {request}"
    elif limit is not None and limited < least:
        yield f"{text}, but limit is {limit}"


def _above(
    kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    request, limit = requests.get(name), limits.get(name)
    requested, limited, most = _comparable(request, limit, enforced)
    text = f"maximum {name} usage per {kind} is {enforced}"
    if limit is None:
        yield f"{text}.  No limit is specified"
    elif limited > most:
        yield f"{text}, but limit is {limit}"
    elif request is not None and requested > most:
        yield f"{text}, but request is {request}"


def _above_request(kind: str, name: str, enforced: Quantity, requests: Amounts) -> Iterator[str]:
    request = requests.get(name)
    requested, most = _comparable(request, enforced)
    text = f"maximum {name} usage per {kind} is {enforced}"
    if request is None:
        yield f"{text}.  No request is specified"
    elif requested > most:
        yield f"{text}, but request is {request}"


def _ratio(
    kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    requested, limited, _ = _comparable(requests.get(name), limits.get(name), enforced)
    text = f"{name} max limit to request ratio per {kind} is {enforced}, but "
    if not requested:
        yield f"{text}no request is specified or request is 0"
    elif not limited:
        yield f"{text}no limit is specified or limit is 0"
    elif limited * 1000 > enforced.scaled(MILLI) * requested:
        yield f"{text}provided ratio is {limited / requested:f}"


# --- what all containers of a pod ask for


def total(spec: Object, name: str) -> Amounts:
    """The sum over containers, or what an init container needs if that is more."""
    found: Amounts = {}
    for container in spec.get("containers") or ():
        _combine(found, _of(container, name), add)
    beside: Amounts = {}
    """Of init containers that go on running."""
    first: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _of(container, name)
        if container.get("restartPolicy") == "Always":
            _combine(found, own, add)
            _combine(beside, own, add)
            own = beside
        else:
            own = dict(own)
            _combine(own, beside, add)
        _combine(first, own, max)
    _combine(found, first, max)
    of_pod = _amounts((spec.get("resources") or {}).get(name))
    return found | {key: of_pod[key] for key in _POD_LEVEL if key in of_pod}


def _of(container: Any, name: str) -> Amounts:
    return _amounts((container.get("resources") or {}).get(name))


def _combine(
    into: Amounts, more: Amounts, combine: Callable[[Quantity, Quantity], Quantity]
) -> None:
    for key, value in more.items():
        into[key] = combine(into[key], value) if key in into else value
