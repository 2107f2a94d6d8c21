"""Tables of the built-in kinds: which columns they have and how cells are computed.

Cells are pure functions of an object and the present moment. Column types and formats
are upstream's (a count may have the type "string", as clients expect); descriptions are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from pykcp.machinery.durations import age_since, human_duration
from pykcp.machinery.schema.definition import Cell, Column
from pykcp.machinery.schema.printer import AGE_TEXT, NAME, NAME_TEXT
from pykcp.machinery.schema.printer import name_cell as _name
from pykcp.types import Object


def _age(obj: Object, now: datetime) -> str:
    return age_since(obj["metadata"].get("creationTimestamp"), now)


def _created_at(obj: Object, _now: datetime) -> str:
    return obj["metadata"].get("creationTimestamp") or "0001-01-01T00:00:00Z"


def field(*path: str, default: Any = "") -> Cell:
    """The value at a path of field names; `default` where there is none."""

    def cell(obj: Object, _now: datetime) -> Any:
        value: Any = obj
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
            if value is None:
                return default
        return value

    return cell


def count(*path: str) -> Cell:
    """How many entries the list or map at a path has."""
    get = field(*path, default=())
    return lambda obj, now: len(get(obj, now))


AGE = Column("Age", "string", "", AGE_TEXT, cell=_age)
CREATED_AT = Column("Created At", "date", "", AGE_TEXT, cell=_created_at)


def plain() -> tuple[Column, ...]:
    """Kinds without columns of their own."""
    return (NAME, CREATED_AT)


def name_and_age() -> tuple[Column, ...]:
    return (NAME, AGE)


def config_map() -> tuple[Column, ...]:
    def entries(obj: Object, _now: datetime) -> int:
        return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())

    return (NAME, Column("Data", "string", "", "Number of entries.", cell=entries), AGE)


def secret() -> tuple[Column, ...]:
    return (
        NAME,
        Column("Type", "string", "", "Type of the secret.", cell=field("type")),
        Column("Data", "string", "", "Number of entries.", cell=count("data")),
        AGE,
    )


def namespace() -> tuple[Column, ...]:
    status = Column(
        "Status", "string", "", "Phase of the namespace.", cell=field("status", "phase")
    )
    return (NAME, status, AGE)


def lease() -> tuple[Column, ...]:
    holder = field("spec", "holderIdentity")
    return (NAME, Column("Holder", "string", "", "Holder of the lease.", cell=holder), AGE)


def resource_quota() -> tuple[Column, ...]:
    return (
        NAME,
        Column(
            "Request", "string", "", "Usage and limit of each resource.", cell=_quota(limits=False)
        ),
        Column(
            "Limit",
            "string",
            "",
            "Usage and limit of each resource limit.",
            cell=_quota(limits=True),
        ),
        AGE,
    )


def _quota(*, limits: bool) -> Cell:
    def cell(obj: Object, _now: datetime) -> str:
        status = obj.get("status") or {}
        used = status.get("used") or {}
        return ", ".join(
            f"{name}: {used.get(name, '0')}/{hard}"
            for name, hard in sorted((status.get("hard") or {}).items())
            if name.startswith("limits.") is limits
        )

    return cell


def event() -> tuple[Column, ...]:
    return _event_columns("involvedObject", "message", "source", "", "reportingComponent")


def event_of_events_group() -> tuple[Column, ...]:
    return _event_columns(
        "regarding", "note", "deprecatedSource", "deprecated", "reportingController"
    )


def _event_columns(
    target: str, message: str, source: str, prefix: str, controller: str
) -> tuple[Column, ...]:
    """The same columns for both groups, whose fields have different names."""

    def own(name: str) -> str:
        return prefix + name[0].upper() + name[1:] if prefix else name

    first_key, last_key, count_key = own("firstTimestamp"), own("lastTimestamp"), own("count")

    def first_seen(obj: Object, now: datetime) -> str:
        return age_since(obj.get(first_key) or obj.get("eventTime"), now)

    def last_seen(obj: Object, now: datetime) -> str:
        series = obj.get("series")
        if series is not None:
            return age_since(series.get("lastObservedTime"), now)
        last = obj.get(last_key)
        return age_since(last, now) if last else first_seen(obj, now)

    def occurrences(obj: Object, _now: datetime) -> int:
        series = obj.get("series")
        if series is not None:
            return int(series.get("count", 0))
        return obj.get(count_key) or 1

    def about(obj: Object, _now: datetime) -> str:
        reference = obj.get(target) or {}
        kind = reference.get("kind", "").lower()
        name = reference.get("name", "")
        return f"{kind}/{name}" if name else kind

    def reporter(obj: Object, _now: datetime) -> str:
        who = obj.get(source) or {}
        component = who.get("component") or obj.get(controller, "")
        instance = who.get("host") or obj.get("reportingInstance", "")
        return f"{component}, {instance}" if instance else component

    def text(obj: Object, _now: datetime) -> str:
        return str(obj.get(message, "")).strip()

    return (
        Column("Last Seen", "string", "", "Time of the last occurrence.", cell=last_seen),
        Column("Type", "string", "", "Normal or Warning.", cell=field("type")),
        Column("Reason", "string", "", "Reason of the event.", cell=field("reason")),
        Column("Object", "string", "", "The object that the event refers to.", cell=about),
        Column("Subobject", "string", "", "Part of the object.", 1, field(target, "fieldPath")),
        Column("Source", "string", "", "Source of the event.", 1, reporter),
        Column("Message", "string", "", "Description of the event.", cell=text),
        Column("First Seen", "string", "", "Time of the first occurrence.", 1, first_seen),
        Column("Count", "string", "", "Number of occurrences.", 1, occurrences),
        Column("Name", "string", "name", NAME_TEXT, 1, _name),
    )


def role_binding() -> tuple[Column, ...]:
    def role(obj: Object, _now: datetime) -> str:
        reference = obj.get("roleRef") or {}
        return f"{reference.get('kind', '')}/{reference.get('name', '')}"

    return (
        NAME,
        Column("Role", "string", "", "The granted role.", cell=role),
        AGE,
        Column("Users", "string", "", "Users with this role.", 1, _subjects("User")),
        Column("Groups", "string", "", "Groups with this role.", 1, _subjects("Group")),
        Column(
            "ServiceAccounts",
            "string",
            "",
            "Service accounts with this role.",
            1,
            _subjects("ServiceAccount"),
        ),
    )


def _subjects(kind: str) -> Cell:
    def cell(obj: Object, _now: datetime) -> str:
        return ", ".join(
            f"{s.get('namespace', '')}/{s['name']}" if kind == "ServiceAccount" else s["name"]
            for s in obj.get("subjects") or ()
            if s.get("kind") == kind
        )

    return cell


def certificate_signing_request() -> tuple[Column, ...]:
    def duration(obj: Object, _now: datetime) -> str:
        seconds = obj.get("spec", {}).get("expirationSeconds")
        return "<none>" if seconds is None else human_duration(seconds)

    def signer(obj: Object, _now: datetime) -> str:
        return obj.get("spec", {}).get("signerName") or "<none>"

    return (
        NAME,
        AGE,
        Column("SignerName", "string", "", "Requested signer.", cell=signer),
        Column(
            "Requestor",
            "string",
            "",
            "User who created the request.",
            cell=field("spec", "username"),
        ),
        Column("RequestedDuration", "string", "", "Requested validity.", cell=duration),
        Column("Condition", "string", "", "State of the request.", cell=_csr_condition),
    )


def _csr_condition(obj: Object, _now: datetime) -> str:
    status = obj.get("status") or {}
    types = {c.get("type") for c in status.get("conditions") or ()}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        words.append("Failed")
    if status.get("certificate"):
        words.append("Issued")
    return ",".join(words)


def webhooks() -> tuple[Column, ...]:
    return (
        NAME,
        Column("Webhooks", "integer", "", "Number of webhooks.", cell=count("webhooks")),
        AGE,
    )


def validating_policy() -> tuple[Column, ...]:
    return _policy("Validations", "Number of validations.", "validations")


def mutating_policy() -> tuple[Column, ...]:
    return _policy("Mutations", "Number of mutations.", "mutations")


def _policy(title: str, text: str, key: str) -> tuple[Column, ...]:
    def param_kind(obj: Object, _now: datetime) -> str:
        kind = (obj.get("spec") or {}).get("paramKind")
        return "<unset>" if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"

    return (
        NAME,
        Column(title, "integer", "", text, cell=count("spec", key)),
        Column("ParamKind", "string", "", "Kind of the parameters.", cell=param_kind),
        AGE,
    )


def policy_binding() -> tuple[Column, ...]:
    return (
        NAME,
        Column(
            "PolicyName",
            "string",
            "",
            "The bound policy.",
            cell=field("spec", "policyName"),
        ),
        Column("ParamRef", "string", "", "The parameters of the binding.", cell=_param_reference),
        AGE,
    )


def _param_reference(obj: Object, _now: datetime) -> str:
    reference = (obj.get("spec") or {}).get("paramRef")
    if reference is None:
        return "<unset>"
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    selector = reference.get("selector")
    return "<unset>" if selector is None else _selector_text(selector)


def _selector_text(selector: Object) -> str:
    """A label selector as Go prints the struct; kubectl users see it so."""
    labels = "".join(f"{k}: {v}," for k, v in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        "LabelSelectorRequirement{"
        f"Key:{e.get('key', '')},Operator:{e.get('operator', '')},"
        f"Values:[{' '.join(e.get('values') or ())}],}},"
        for e in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def scale() -> tuple[Column, ...]:
    return (
        Column("Name", "string", "name", NAME_TEXT, cell=_name),
        Column(
            "Desired",
            "integer",
            "",
            "Desired number of replicas.",
            cell=field("spec", "replicas", default=0),
        ),
        Column(
            "Available",
            "integer",
            "",
            "Current number of replicas.",
            cell=field("status", "replicas", default=0),
        ),
        replace(AGE, type="date"),
    )


def rows(
    columns: Iterable[Column], objects: Iterable[Object], now: datetime
) -> Iterable[list[Any]]:
    """The cells of each object, in the order of the columns."""
    cells: list[Callable[[Object, datetime], Any]] = [c.cell for c in columns if c.cell is not None]
    for obj in objects:
        yield [cell(obj, now) for cell in cells]
