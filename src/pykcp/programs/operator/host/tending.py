"""What is done inside of an installation: roles of users, marks of shards, the end of shards.

The objects of a host are tended by whatever runs their programs: the supervisor of `kcp up`, or,
where systemd runs them, the service that renews certificates.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, MutableMapping
from typing import cast

from pykcp.clients.credential_files import CredentialError
from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.machinery.status import StatusError
from pykcp.programs.operator.cluster.cleanup import Cleanup
from pykcp.programs.operator.configuration.world import NotConfigurable
from pykcp.programs.operator.host.installation import ConfiguredHost
from pykcp.types import Object

_log = logging.getLogger(__name__)


def object_label(obj: Object) -> str:
    """`Shard/alpha`, as the owners of workloads are called."""
    return f"{obj['kind']}/{obj['metadata']['name']}"


async def tend_objects(
    configured: ConfiguredHost, available: Collection[str], waiting: MutableMapping[str, str]
) -> bool:
    """Whether nothing is left to do; `waiting` is given the reasons, by object.

    `available`: the objects whose programs are ready.
    """
    if configured.world is None:
        return True
    cleanup, is_done = Cleanup(cast("Client", configured.objects), configured.world), True
    for obj in configured.manifests.objects:
        name = object_label(obj)
        try:
            await cleanup.tend(obj, is_available=name in available)
        except (SendFailed, StatusError, NotConfigurable, CredentialError) as error:
            _log.info("%s: %s", name, error)
            waiting[name] = str(error)
            is_done = False
        else:
            waiting.pop(name, None)
    return is_done


def has_gone(configured: ConfiguredHost) -> bool:
    """Whether an object that was being deleted is gone: its programs are to be stopped."""
    known = configured.objects.entries
    return any(object_label(one) not in known for one in configured.manifests.objects)
