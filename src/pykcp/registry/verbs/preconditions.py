"""What an update must agree with before anything else is looked at: name, uid, version."""

from __future__ import annotations

from pykcp.machinery.status import (
    OPTIMISTIC_LOCK,
    BadRequest,
    Conflict,
    Invalid,
    StatusError,
    invalid,
)
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.changes import ObjectChange, WriteTarget
from pykcp.types import Object


def check_missing(target: WriteTarget, obj: Object, *, is_apply: bool) -> None:
    """Whether an object that an update found missing may be created as it is."""
    resource, namespace, name = target.resource, target.namespace, target.name
    metadata = obj["metadata"]
    uid = metadata.get("uid")
    if uid:
        raise _no_such_uid(resource, name, namespace, uid, is_apply=is_apply)
    check_name(resource, namespace, name, obj)
    if not target.context.dry_run:
        metadata.pop("resourceVersion", None)


def _no_such_uid(
    resource: Resource, name: str, namespace: str, uid: str, *, is_apply: bool
) -> Conflict:
    if not is_apply:
        return _other_uid(resource, name, namespace, uid, "")
    return Conflict.resource(
        resource.group,
        resource.plural,
        name,
        f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
    )


def check_name(resource: Resource, namespace: str, name: str, obj: Object) -> None:
    """The object's name and namespace must be the URL's; an empty namespace is filled in."""
    metadata = obj.setdefault("metadata", {})
    own = metadata.get("namespace") or ""
    if resource.namespaced and own and own != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    given = metadata.get("name") or ""
    if not given:
        raise BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise BadRequest(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )
    if resource.namespaced:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def check_versions(target: WriteTarget, change: ObjectChange, new: Object, live: Object) -> None:
    """Whether the new object names the live one, by uid and resource version; Conflict if not."""
    resource, name = target.resource, target.name
    metadata, old = new["metadata"], live["metadata"]
    uid = metadata.get("uid")
    if uid and uid != old["uid"] and not change.is_patch and not change.is_apply:
        raise _other_uid(resource, name, old.get("namespace", ""), uid, old["uid"])
    version = metadata.get("resourceVersion") or ""
    if version in ("", "0"):
        if not resource.rules.unconditional_update and not change.is_apply:
            raise Invalid.fields(
                resource.group,
                resource.plural,
                name,
                [invalid("metadata.resourceVersion", 0, "must be specified for an update")],
            )
        metadata["resourceVersion"] = old["resourceVersion"]
    elif version != old["resourceVersion"]:
        if not (version.isascii() and version.isdigit()):
            raise StatusError(
                f'strconv.ParseUint: parsing "{version}": invalid syntax', reason="", details=False
            )
        raise Conflict.resource(resource.group, resource.plural, name, OPTIMISTIC_LOCK)


def _other_uid(resource: Resource, name: str, namespace: str, wanted: str, found: str) -> Conflict:
    place = (
        f"/{resource.plural}/{namespace}/{name}"
        if resource.namespaced
        else f"/{resource.plural}/{name}"
    )
    return Conflict.resource(
        resource.group,
        resource.plural,
        name,
        f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
    )
