"""What shards ask of each other about deleted workspaces, under `/services/provisioning/trash`.

POST …/records  what is kept here of the workspaces that were in some logical clusters
POST …/restore  restore a workspace that is kept here, for a user
POST …/check    whether a user may restore a workspace whose parent is here
POST …/create   create its Workspace
"""

from __future__ import annotations

from pykcp.auth.authz.attributes import Attributes, forbidden
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.user import User
from pykcp.controllers.tenancy.far_trash import CHECK, CREATE, NOT_HERE, RECORDS, RESTORE
from pykcp.machinery.resources import WORKSPACES
from pykcp.machinery.status import BadRequest, NotFound
from pykcp.registry.trash import Record, record_from, record_of_json
from pykcp.registry.verbs.restore import Trash, user_from
from pykcp.server.media.answers import PageNotFound
from pykcp.types import Object


class ParentNotHere(NotFound):
    reason = NOT_HERE


class RestoreRights:
    """Whether users may restore workspaces in a logical cluster of this shard."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def check(self, user: User, record: Record) -> None:
        """Raises Forbidden unless the user may create and get the workspace of a record."""
        group, version, resource = WORKSPACES
        for verb, name in (("create", ""), ("get", record.name)):
            asked = Attributes(
                user, verb, group=group, resource=resource, version=version, name=name
            )
            decision = await self._authorizer.authorize(record.parent, asked)
            if not decision.allowed:
                raise forbidden(asked, decision.reason)


class TrashRequests:
    def __init__(self, trash: Trash, rights: RestoreRights) -> None:
        self._trash, self._rights = trash, rights

    async def answer(self, action: str, body: Object) -> Object:
        """Raises the error to answer."""
        if action == RECORDS:
            return {"records": self._records(body)}
        user = user_from(_mapping(body, "user"))
        if action == RESTORE:
            await self._restore(body.get("cluster"), user)
            return {}
        if action not in (CHECK, CREATE):
            raise PageNotFound
        record = record_of_json(_mapping(body, "record"))
        if not self._trash.is_here(record.parent):
            raise ParentNotHere("the logical cluster is not on this shard")
        if action == CHECK:
            await self._rights.check(user, record)
            await self._trash.check_place(record, user)
        else:
            await self._trash.create_workspace(record, user)
        return {}

    def _records(self, body: Object) -> list[Object]:
        parents = body.get("parents")
        if not isinstance(parents, list) or not all(isinstance(one, str) for one in parents):
            raise BadRequest("parents must be a list of strings")
        return [record._asdict() for parent in parents for record in self._trash.records(parent)]

    async def _restore(self, cluster: object, user: User) -> None:
        entry = self._trash.find(cluster) if isinstance(cluster, str) else None
        if entry is None:
            raise NotFound.resource(WORKSPACES.group, WORKSPACES.resource, str(cluster))
        record = record_from(entry.value)
        if self._trash.is_here(record.parent):
            await self._rights.check(user, record)
        await self._trash.restore(record, user)  # which asks the shard of the parent otherwise


def _mapping(body: Object, part: str) -> Object:
    value = body.get(part)
    if not isinstance(value, dict):
        raise BadRequest(f"{part} must be an object")
    return value
