"""LIST: what the query of a list asks for."""

from __future__ import annotations

from pykcp.clients.where import OF_ALL_SHARDS
from pykcp.machinery.status import BadRequest, FieldError, go_quote
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.continuing import decode_token
from pykcp.registry.verbs.read import PAGE_BYTES, ListOptions, Pager, token_base
from pykcp.registry.watch.selection import Selection
from pykcp.server.call import Call, integer
from pykcp.server.handlers.list_answers import ListAnswer, Pages
from pykcp.server.media import transforms
from pykcp.server.media.answers import Room, send_object
from pykcp.server.numbers import BadNumber, uint64
from pykcp.types import Object

_MATCHES = ("Exact", "NotOlderThan")


async def list_(call: Call) -> None:
    await send_list(
        call, Pager(call.resource, call.context, call.info.namespace, list_options(call))
    )


async def send_list(call: Call, pages: Pages) -> None:
    """A list in the form that the client asked for, in steps that leave time for others."""
    moves = call.resource.services.moves
    if moves is not None and call.exchange.request.header(OF_ALL_SHARDS) is not None:
        await moves.all_arrived()  # nothing of them is on other shards any more
    room = Room(call.exchange, PAGE_BYTES)
    await room.take()
    try:
        first = await pages.next()
        transforms.check_list_form(call)
        await ListAnswer(call, pages, room).send(first)
    finally:
        room.give()


def send_objects(call: Call, objects: list[Object], metadata: Object) -> None:
    """A list of objects that are at hand, in the form that the client asked for."""
    resource, accepted = call.resource, call.accepted
    body: Object
    if not accepted.transform:
        body = {
            "kind": resource.definition.list_kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": objects,
        }
    elif accepted.transform == "Table":
        include = transforms.include_policy(call)
        now = resource.services.sources.now.clock()
        body = transforms.table(
            resource, objects, metadata, accepted.transform_version, include, now
        )
    else:
        body = transforms.partial_list(objects, metadata, accepted.transform_version)
    send_object(call, body)


def list_options(call: Call) -> ListOptions:
    """The query of a list; every combination that upstream refuses is refused."""
    info = call.info
    if not info.query:
        scope = call.resource.scope
        return ListOptions(scope) if scope is not None else _PLAIN
    selection = call.select()
    limit = integer(call, "limit")
    version = info.param("resourceVersion")
    match = info.param("resourceVersionMatch")
    token = info.param("continue")
    check_list_rules(call)
    if limit < 0 or (version == "0" and not is_uncached(call.resource)):
        limit = 0  # upstream answers version 0 from its cache, which does not page
    if token:
        start = decode_token(token)
        if version not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        return _continued(call, start, limit, selection)
    revision = listed_revision(version)
    if match == "Exact" or (limit and revision and not match):
        return ListOptions(selection, limit, at=revision, is_exact=match == "Exact")
    return ListOptions(selection, limit, not_older_than=revision)


_PLAIN = ListOptions()


def listed_revision(version: str) -> int:
    if not version:
        return 0
    try:
        return uint64(version)
    except BadNumber as error:
        why = f"resourceVersion: Invalid value: {go_quote(version)}: {error}"
        raise BadRequest(f"invalid resource version: {why}") from error


def check_list_rules(call: Call) -> None:
    """What the options of a list must agree in; Invalid if they do not."""
    from pykcp.machinery.status import Invalid, forbidden

    info = call.info
    match, token = info.param("resourceVersionMatch"), info.param("continue")
    errors = _match_errors(info.param("resourceVersion"), match, token) if match else []
    if "sendInitialEvents" in info.query:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise Invalid.fields("meta.k8s.io", "ListOptions", "", errors)


def _match_errors(version: str, match: str, token: str) -> list[FieldError]:
    from pykcp.machinery.status import forbidden, not_supported

    errors = []
    if not version:
        errors.append(
            forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )
        )
    if token:
        errors.append(
            forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            )
        )
    if match not in _MATCHES:
        errors.append(not_supported("resourceVersionMatch", match, (*sorted(_MATCHES), "")))
    if match == "Exact" and version == "0":
        errors.append(
            forbidden(
                "resourceVersionMatch",
                'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
            )
        )
    return errors


def is_uncached(resource: Resource) -> bool:
    """Upstream does not cache events."""
    return resource.plural == "events" and resource.definition.native


def _continued(call: Call, token: tuple[int, str], limit: int, selection: Selection) -> ListOptions:
    revision, start = token
    base = token_base(call.resource, call.cluster, call.info.namespace, selection)
    return ListOptions(
        selection,
        limit,
        after=base + start,
        at=max(revision, 0),
        is_continued=True,
    )
