"""All virtual workspaces of a shard, in kcp's order."""

from __future__ import annotations

from pykcp.auth.authz.chain import Authorizer
from pykcp.registry.bound import BoundResources
from pykcp.registry.directory import Directory
from pykcp.registry.lookup import Lookup
from pykcp.storage.interface import Store
from pykcp.virtual.apiexport import ApiExportWorkspace
from pykcp.virtual.apiexport.surface import Kinds
from pykcp.virtual.apiresourceschema import ApiResourceSchemaWorkspace
from pykcp.virtual.framework import Parts, VirtualWorkspace
from pykcp.virtual.initializingworkspaces import initializing_workspaces
from pykcp.virtual.terminatingworkspaces import terminating_workspaces


def virtual_workspaces(
    store: Store,
    directory: Directory,
    bound: BoundResources,
    lookup: Lookup,
    authorizer: Authorizer,
) -> tuple[VirtualWorkspace, ...]:
    parts = Parts(directory, lookup, authorizer)
    return (
        ApiExportWorkspace(store, Kinds(lookup, directory, bound), authorizer),
        ApiResourceSchemaWorkspace(parts),
        initializing_workspaces(parts),
        terminating_workspaces(parts),
    )
