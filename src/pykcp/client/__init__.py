"""A client for workspaces: any kind in any workspace, watched, applied, reconciled.

    from pykcp.client import connect

    async with connect() as kcp:
        team = await kcp.workspace("root").create("team")
        await team.apply({"apiVersion": "v1", "kind": "ConfigMap", ...})

`pykcp.client.sync` has the same without `await`; `pykcp.client.adapters` hands a workspace to
other Python clients; `Provider` runs a controller over the consumers of an APIExport.
"""

from __future__ import annotations

from pykcp.client.informers import ExportInformers, ObjectInformer, Place, place_of
from pykcp.client.kinds import KindInfo
from pykcp.client.objects import ObjectEvent, Objects
from pykcp.client.providers import Provider, Reconciliation, RetryLater
from pykcp.client.session import Kcp, connect
from pykcp.client.workspaces import Workspace
from pykcp.clients.credential_files import CredentialError
from pykcp.machinery.status import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServiceUnavailable,
    StatusError,
    TooManyRequests,
    Unauthorized,
)

__all__ = [
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "CredentialError",
    "Expired",
    "ExportInformers",
    "Forbidden",
    "Invalid",
    "Kcp",
    "KindInfo",
    "NotFound",
    "ObjectEvent",
    "ObjectInformer",
    "Objects",
    "Place",
    "Provider",
    "Reconciliation",
    "RetryLater",
    "ServiceUnavailable",
    "StatusError",
    "TooManyRequests",
    "Unauthorized",
    "Workspace",
    "connect",
    "place_of",
]
