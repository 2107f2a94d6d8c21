"""`kcp admin`: administration of a shard, whether it is running or not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykcp.cli.server import refuse, unknown_command

if TYPE_CHECKING:
    from pykcp.programs.shard.settings import ShardSettings

USAGE = """Administer a shard.

Usage:
  kcp admin fsck [flags]   check the store for consistency; changes nothing

Flags locate the shard's state, as for `kcp start`: --root-directory, --etcd-servers and the other
flags of etcd. If the server is running, it performs the check itself.
The exit code is 0 if it is consistent, 1 if not, 2 if it could not be checked.
"""
_COULD_NOT = 2
_PATIENCE = 600
"""Timeout in seconds for the check by a running server."""


def main(words: Sequence[str]) -> int:
    if not words or any(word in ("--help", "-h", "help") for word in words):
        print(USAGE, end="")
        return 0
    if words[0] != "fsck":
        unknown_command(words[0], "kcp admin", ("fsck",))
        return _COULD_NOT
    return fsck(words[1:])


def fsck(words: Sequence[str]) -> int:
    from pykcp.programs.kit.errors import USER_ERRORS, described
    from pykcp.programs.kit.flags import FlagError
    from pykcp.programs.shard.settings import ShardSettings

    try:
        settings, _ = ShardSettings.parse(words)
        problems = list(settings.store.problems())
        report = "" if problems else _shown_report(settings)
    except FlagError as error:
        refuse(str(error).splitlines())
        return _COULD_NOT
    except USER_ERRORS as error:
        refuse([described(error)])
        return _COULD_NOT
    if problems:
        refuse(problems)
        return _COULD_NOT
    print(report, end="")
    return 0 if report.rstrip().endswith("consistent") else 1


def _shown_report(settings: ShardSettings) -> str:
    from pykcp.cli.progress import shown_progress

    with shown_progress("checking the store"):
        return _report(settings)


def _report(settings: ShardSettings) -> str:
    from pykcp.storage.errors import InUse

    if (
        not settings.store.etcd_servers
        and not (settings.generic.root_directory / "store.db").exists()
    ):
        raise FileNotFoundError(
            f"no shard found in {settings.generic.root_directory}; set --root-directory"
        )
    try:
        return asyncio.run(_offline(settings))
    except InUse:
        return _online(settings)


async def _offline(settings: ShardSettings) -> str:
    from pykcp.programs.shard.consistency import check
    from pykcp.programs.shard.stages.stores import make_store, start_store

    store = await start_store(make_store(settings))
    try:
        return str(await check(store))
    finally:
        await store.stop()


def _online(settings: ShardSettings) -> str:
    """Let the running server check, with the shard administrator of its kubeconfig."""
    from http.client import HTTPSConnection
    from urllib.parse import urlsplit

    from pykcp.clients.kubeconfig import load_endpoint, make_context

    endpoint = load_endpoint(
        str(settings.generic.root_directory / settings.generic.kubeconfig_path), "shard-base"
    )
    connection = HTTPSConnection(
        urlsplit(endpoint.url).netloc, context=make_context(endpoint), timeout=_PATIENCE
    )
    try:
        headers = {"Authorization": f"Bearer {endpoint.token}"}
        connection.request("GET", "/debug/fsck", headers=headers)
        reply = connection.getresponse()
        text = reply.read().decode()
    finally:
        connection.close()
    if reply.status != 200:
        raise OSError(f"the server answered {reply.status}: {text}")
    return text
