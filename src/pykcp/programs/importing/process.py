"""`kcp import`: read a kcp, say what there is, and write it into a new root directory.

A shard is started twice on the new directory, without clients. The first one has no controllers:
it makes `root` with the identities of that kcp, and everything else is written. The second one has
controllers, which bind the bindings again and complete what is computed. What several shards of
that kcp hold becomes one shard.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
from collections.abc import AsyncIterator, Callable

from pykcp.machinery import meta
from pykcp.machinery.resources import API_BINDINGS, GroupVersionResource
from pykcp.programs.importing.files import take_files
from pykcp.programs.importing.found import FoundObject
from pykcp.programs.importing.plan import ImportPlan, make_plan
from pykcp.programs.importing.settings import ImportSettings, SourceOptions
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.shard.consistency import check
from pykcp.programs.shard.process import running_shard
from pykcp.programs.shard.settings import ShardSettings
from pykcp.programs.shard.wiring import Shard
from pykcp.registry.moving.imports import Imports

Say = Callable[[str], None]
_BIND_SECONDS = 120.0
_BOUND = "Bound"


def run(settings: ImportSettings, say: Say) -> int:
    return asyncio.run(_run(settings, say))


async def _run(settings: ImportSettings, say: Say) -> int:
    root = settings.generic.root_directory
    options = settings.importing
    if not options.dry_run and root.exists() and any(root.iterdir()):
        raise SettingsError(f"--root-directory: {root} is not empty; import into a new one")
    unread: list[str] = []
    shards = [[one async for one in _source(shard, unread)] for shard in options.shards()]
    plan = make_plan(shards, _is_built_in)
    if unread:
        plan.left_out["objects that cannot be read"] = len(unread)
    for line in plan.lines():
        say(line)
    if options.dry_run:
        say("nothing was changed (--dry-run)")
        return 0
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    notes = list(take_files([shard.from_root_directory for shard in options.shards()], root))
    identities = _write_identities(root, plan)
    async with running_shard(_shard_settings(root, identities, "--run-controllers=false")) as shard:
        made = Imports(shard.stores.store, shard.catalog.directory)
        written = await made.write(plan.objects)
    say(f"{written} objects written; {len(plan.objects) - written} exist in a new server anyway")
    async with running_shard(_shard_settings(root, identities)) as shard:
        waiting = await _bound(shard, plan)
        report = await check(shard.stores.store, is_running=True)
    identities.unlink()
    for line in (*waiting, *(f"fsck: {line}" for line in str(report).splitlines()), *notes):
        say(line)
    say(f"start it: kcp start --root-directory={root}")
    return 0 if not (waiting or report.problems or unread) else 1


def _source(options: SourceOptions, unread: list[str]) -> AsyncIterator[FoundObject]:
    if options.from_etcd:
        from pykcp.programs.importing.decryption import Decryption
        from pykcp.programs.importing.from_etcd import objects_in_etcd

        decryption = Decryption(options.from_encryption_provider_config)
        return objects_in_etcd(options.etcd(), decryption, unread)
    from pykcp.programs.importing.from_api import objects_of_server

    return objects_of_server(options.from_kubeconfig, options.from_context)


def _is_built_in(kind: GroupVersionResource) -> bool:
    from pykcp.apis.catalog import builtin_definitions

    return any(
        (d.group, d.plural) == (kind.group, kind.resource) and kind.version in d.versions
        for d in builtin_definitions()
    )


def _shard_settings(root: pathlib.Path, identities: pathlib.Path, *more: str) -> ShardSettings:
    """On a free port of this machine; without the battery that writes a kubeconfig."""
    settings, _ = ShardSettings.parse(
        [
            f"--root-directory={root}",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--experimental-bind-free-port",
            "--batteries-included=workspace-types",
            f"--root-identities-file={identities}",
            *more,
        ]
    )
    return settings.checked()


def _write_identities(root: pathlib.Path, plan: ImportPlan) -> pathlib.Path:
    path = root / "identities.json"
    entries = [{"export": name, "identity": key} for name, key in plan.identities.items()]
    path.touch(mode=0o600)
    path.write_text(json.dumps({"identities": entries}))
    return path


async def _bound(shard: Shard, plan: ImportPlan) -> list[str]:
    """Wait until all bindings are bound; those that are not, with the reason."""
    lookup, waiting = shard.catalog.lookup, set(plan.bindings)
    try:
        async with asyncio.timeout(_BIND_SECONDS):
            while waiting:
                for place in list(waiting):
                    cluster, _, name = place.partition("/")
                    binding = lookup.get(API_BINDINGS, cluster, name) or {}
                    if (binding.get("status") or {}).get("phase") == _BOUND:
                        waiting.discard(place)
                await asyncio.sleep(0.1)
    except TimeoutError:
        return [f"not bound: {place}: {_why(shard, place)}" for place in sorted(waiting)]
    return []


def _why(shard: Shard, place: str) -> str:
    cluster, _, name = place.partition("/")
    binding = shard.catalog.lookup.get(API_BINDINGS, cluster, name) or {}
    found = [
        str(condition.get("message"))
        for condition in (binding.get("status") or {}).get("conditions") or ()
        if condition.get("status") == "False"
    ]
    path = meta.annotation(binding, "kcp.io/path") if binding else ""
    return f"{path} {'; '.join(found)}".strip()
