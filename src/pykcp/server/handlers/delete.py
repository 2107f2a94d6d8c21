"""DELETE of one object and of a collection."""

from __future__ import annotations

from pykcp.machinery.status import BadRequest, FieldError, Invalid, invalid, not_supported
from pykcp.registry.catalog.native import decode_native
from pykcp.registry.verbs.delete import delete as delete_object
from pykcp.registry.verbs.delete import delete_collection as delete_objects
from pykcp.registry.verbs.deletion import DeleteOptions
from pykcp.server.call import Call, integer
from pykcp.server.handlers.get import send_written
from pykcp.server.handlers.list_answers import OnePage
from pykcp.server.handlers.listing import list_options, send_list
from pykcp.server.handlers.options import dry_run_errors
from pykcp.server.media.answers import send_object, success
from pykcp.server.media.bodies import body_of, no_kind, parse_as
from pykcp.types import Object

_POLICIES = ("Background", "Foreground", "Orphan")


async def delete(call: Call) -> None:
    resource, info = call.resource, call.info
    options = delete_options(call)
    deleted = await delete_object(resource, call.context, info.namespace, info.name, options)
    if deleted.is_gone and not resource.returns_deleted:
        status = success(
            name=info.name, group=resource.group, kind=resource.plural, uid=deleted.uid
        )
        send_object(call, status)
        return
    code = 202 if not deleted.is_gone and options.orphan_dependents is False else 200
    await send_written(call, deleted.value, code)


async def delete_collection(call: Call) -> None:
    listing = list_options(call)  # upstream looks at these first
    options = delete_options(call)
    found = await delete_objects(call.resource, call.context, call.info.namespace, options, listing)
    await send_list(call, OnePage(found))


def delete_options(call: Call) -> DeleteOptions:
    """From the body if there is one, otherwise from the query."""
    body = body_of(call)
    raw = _from_body(call) if body else _from_query(call)
    errors = _propagation_errors(raw) + dry_run_errors(raw.get("dryRun") or [])
    if errors:
        raise Invalid.fields("meta.k8s.io", "DeleteOptions", "", errors)
    if "All" in (raw.get("dryRun") or ()):
        call.context.dry_run = True
    conditions = raw.get("preconditions") or {}
    grace = raw.get("gracePeriodSeconds")
    return DeleteOptions(
        grace_period=grace,
        uid=conditions.get("uid"),
        resource_version=conditions.get("resourceVersion"),
        orphan_dependents=raw.get("orphanDependents"),
        propagation=raw.get("propagationPolicy"),
    )


def _from_body(call: Call) -> Object:
    from pykcp.apis.loader import library

    schema = library().kind("kube/meta_v1", "DeleteOptions")
    try:
        value = parse_as(call, "DeleteOptions", "v1")
    except BadRequest as error:
        # Upstream names neither the expected kind nor the body here.
        bare = str(error).partition("DeleteOptions): ")[2].rpartition(" (")[0]
        raise BadRequest(bare or str(error)) from error
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise BadRequest("json: cannot unmarshal into Go value of type v1.DeleteOptions")
    kind = value.get("kind") or "DeleteOptions"
    version = value.get("apiVersion") or "meta.k8s.io/v1"
    if isinstance(kind, str) and kind != "DeleteOptions":
        raise BadRequest(no_kind(kind, str(version)))
    try:
        return decode_native(schema, "DeleteOptions", "v1", value, [], None)
    except BadRequest as error:
        bare = error.message.partition("as a DeleteOptions: ")[2]
        raise BadRequest(bare or error.message, details=False) from error


def _from_query(call: Call) -> Object:
    info = call.info
    if not info.query:
        return {}
    out: Object = {"dryRun": info.query.get("dryRun", [])}
    # A parameter that is present counts, even if it is empty.
    if "gracePeriodSeconds" in info.query:
        out["gracePeriodSeconds"] = integer(call, "gracePeriodSeconds")
    if "propagationPolicy" in info.query:
        out["propagationPolicy"] = info.param("propagationPolicy")
    if "orphanDependents" in info.query:
        out["orphanDependents"] = info.is_true("orphanDependents")
    conditions = {"uid": info.param("uid"), "resourceVersion": info.param("resourceVersion")}
    out["preconditions"] = {name: value for name, value in conditions.items() if value}
    return out


def _propagation_errors(raw: Object) -> list[FieldError]:
    path, policy = "propagationPolicy", raw.get("propagationPolicy")
    if policy is None:
        return []
    errors = []
    if raw.get("orphanDependents") is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid(path, policy, why))
    if policy not in _POLICIES:
        known = ("Foreground", "Background", "Orphan", "nil")
        errors.append(not_supported(path, policy, known))
    return errors
