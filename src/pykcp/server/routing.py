"""Whether a method fits a resource at a place: 404, 405, or which verb it is.

Built-in and custom resources are routed by different servers upstream, whose
refusals differ; clients see both, so both are kept.
"""

from __future__ import annotations

from pykcp.machinery.status import BadRequest, MethodNotAllowed, NotFound
from pykcp.registry.keys import is_wildcard
from pykcp.registry.resource import Resource
from pykcp.server.call import Call
from pykcp.server.media.answers import PageNotFound
from pykcp.server.request_info import RequestInfo

VERBS = frozenset(
    ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
)


def check(call: Call) -> None:
    """Refuse what the resource does not have, as upstream's router would say it."""
    info, resource = call.info, call.resource
    if info.verb == "watch" and info.method != "GET":
        raise MethodNotAllowed("the server does not allow this method on the requested resource")
    if is_wildcard(call.cluster) and info.verb not in ("list", "watch"):
        raise MethodNotAllowed(
            f'{info.verb} is not supported on resources of kind "{info.resource}" '
            "in the `*` logical cluster",
            group=info.group,
            kind=info.resource,
        )
    definition = resource.definition
    if resource.deprecation and not definition.native:
        call.context.warn(resource.deprecation)
        call.context.audit["k8s.io/deprecated"] = "true"
    if definition.native or (definition.is_kubernetes and not definition.is_terminating):
        _check_native(info, resource)
    else:
        _check_custom(info, resource)


def _check_native(info: RequestInfo, resource: Resource) -> None:
    is_misplaced = (info.in_namespace and not resource.namespaced) or (
        len(info.parts) > 1 and not _in_scope(info, resource)
    )
    has_tail = len(info.parts) > 3 and info.subresource != "proxy"
    if is_misplaced or has_tail or info.verb == "proxy":
        raise NotFound.path()
    if resource.definition.ephemeral and info.name and not info.subresource:
        raise NotFound.path()  # reviews have no items
    verbs = resource.definition.verbs
    if info.subresource:
        verbs = subresource_verbs(resource, info.subresource)
        if not verbs:
            raise NotFound.path()
    if info.verb not in VERBS or info.verb not in verbs or not _fits_place(info, resource):
        raise MethodNotAllowed("the server does not allow this method on the requested resource")


def _fits_place(info: RequestInfo, resource: Resource) -> bool:
    """Whether the method is meant for an item or a collection, as the path is one."""
    is_item = len(info.parts) > 1
    if info.method == "HEAD":
        return False
    if info.method == "POST":
        return bool(info.subresource) or (not is_item and _in_scope(info, resource))
    if info.method in ("PUT", "PATCH"):
        return is_item
    if info.method == "DELETE":
        return is_item or _in_scope(info, resource)
    return True


def _check_custom(info: RequestInfo, resource: Resource) -> None:
    is_read_of_all = info.verb in ("list", "watch") and len(info.parts) == 1
    if info.in_namespace != resource.namespaced and not is_read_of_all:
        raise PageNotFound
    if info.in_namespace and not resource.namespaced:
        raise PageNotFound
    verbs = resource.definition.verbs
    if info.subresource:
        verbs = subresource_verbs(resource, info.subresource)
        if not verbs:
            raise NotFound.resource(resource.group, resource.plural, info.name)
    is_late = info.verb == "create" and resource.definition.is_terminating  # refused as forbidden
    if info.verb not in VERBS or (info.verb not in verbs and not is_late):
        action = info.verb if info.verb in VERBS else ""
        raise MethodNotAllowed.action(resource.group, resource.plural, action)
    if info.verb == "update" and not info.name:
        raise BadRequest("name must be provided")  # a patch is first asked for its media type


def _in_scope(info: RequestInfo, resource: Resource) -> bool:
    return bool(info.namespace) or not resource.namespaced


def subresource_verbs(resource: Resource, name: str) -> tuple[str, ...]:
    for subresource in resource.definition.subresources_of(resource.version):
        if subresource.name == name:
            return subresource.verbs
    return ()
