"""The client without `await`, for scripts, tests and the interactive shell.

    from pykcp.client.sync import connect

    with connect() as kcp:
        team = kcp.workspace("root").create("team")
        for child in kcp.workspace("root"):
            print(child.path)

Every method does what the method of the same name does in `pykcp.client`. Requests are sent by a
thread of the client; any thread may use it.
"""

from __future__ import annotations

from pykcp.client.sync.informers import SyncInformer
from pykcp.client.sync.objects import SyncObjects
from pykcp.client.sync.providers import SyncProvider, SyncReconciliation
from pykcp.client.sync.session import SyncKcp, connect
from pykcp.client.sync.workspaces import SyncWorkspace

__all__ = [
    "SyncInformer",
    "SyncKcp",
    "SyncObjects",
    "SyncProvider",
    "SyncReconciliation",
    "SyncWorkspace",
    "connect",
]
