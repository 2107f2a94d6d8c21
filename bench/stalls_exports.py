"""Attacks with exports, their views and their bindings, each as large as a request may be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from stalls_attacker import MERGE, YAML, Attack, Attacker, Script, meta
from stalls_places import Room
from stalls_services import make_child

ATTACKS: list[Attack] = []
_V1 = "/apis/apis.kcp.io/v1alpha1"
_V2 = "/apis/apis.kcp.io/v1alpha2"
_TENANCY = "/apis/tenancy.kcp.io/v1alpha1"
_GROUP = "wide.example.com"


def _add(name: str, script: Script) -> None:
    ATTACKS.append(Attack(name, script, has_peer=False))


def _export(name: str, **spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def _resources(plurals: list[str]) -> list[dict[str, Any]]:
    return [
        {"name": p, "group": _GROUP, "schema": f"v1.{p}.{_GROUP}", "storage": {"crd": {}}}
        for p in plurals
    ]


def _claims(count: int, identity: str) -> list[dict[str, Any]]:
    return [
        {"group": f"h{n}.x", "resource": "aa", "verbs": ["*"], "identityHash": identity}
        for n in range(count)
    ]


async def _made_export(a: Attacker, name: str, **spec: Any) -> dict[str, Any]:
    """An export with an identity."""
    await a.setup("POST", f"{_V2}/apiexports", _export(name, **spec))

    async def found() -> dict[str, Any] | None:
        export: dict[str, Any] = json.loads((await a.request("GET", f"{_V2}/apiexports/{name}"))[1])
        return export if (export.get("status") or {}).get("identityHash") else None

    made: dict[str, Any] = await a.wait_for(found)
    return made


async def _wide_export(a: Attacker, count: int) -> dict[str, Any]:
    """An export with as many resources as claims on resources that it does not have."""
    export = await _made_export(a, "wide")
    identity = export["status"]["identityHash"]
    spec = {
        "resources": _resources([f"r{n}" for n in range(count)]),
        "permissionClaims": _claims(count, identity),
    }
    changed = {**_export("wide", **spec), "metadata": {"name": "wide"}}
    metadata = {"resourceVersion": export["metadata"]["resourceVersion"]}
    changed["metadata"] |= metadata
    made: dict[str, Any] = await a.setup("PUT", f"{_V2}/apiexports/wide", changed)
    return made


def _outside(a: Attacker) -> Room:
    """The root of the server, as the attacker."""
    return Room("", a.room.namespace, a.room.user)


def _paths(a: Attacker, export: dict[str, Any], name: str) -> tuple[str, str]:
    cluster = export["metadata"]["annotations"]["kcp.io/cluster"]
    path = a.room.prefix.removeprefix("/clusters/")
    return (
        f"/services/apiexport/{cluster}/{name}/clusters/*",
        f"/services/exports/{path}/{name}/clusters/*",
    )


# -- views -----------------------------------------------------------------------------------------


def _view(count: int, *, is_anonymous: bool) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        paths = _paths(a, await _wide_export(a, count), "wide")
        token = "" if is_anonymous else None
        yield
        for _ in range(4):
            sent = (a.send("GET", f"{p}/api", token=token, room=_outside(a)) for p in paths)
            await asyncio.gather(*sent)

    return script


_add("view of 11,000 resources and claims, no credentials", _view(11_000, is_anonymous=True))
_add("view of 11,000 resources and claims, its owner", _view(11_000, is_anonymous=False))


def _watched_view(count: int, changes: int) -> Script:
    """Watches of a view whose export changes."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        export = await _wide_export(a, count)
        path = f"{_paths(a, export, 'wide')[0]}{_V2}/apibindings?watch=1"
        watching = [
            asyncio.create_task(a.request("GET", path, room=_outside(a), seconds=30))
            for _ in range(4)
        ]
        await asyncio.sleep(1)
        yield
        for n in range(changes):
            patch = {"metadata": {"labels": {"n": str(n)}}}
            await a.send("PATCH", f"{_V2}/apiexports/wide", patch, "application/merge-patch+json")
        for task in watching:
            task.cancel()

    return script


_add("changes of an export of 11,000 claims whose view is watched", _watched_view(11_000, 5))


def _schema(plural: str, text: str, properties: dict[str, Any] | None = None) -> dict[str, Any]:
    names = {
        "plural": plural,
        "singular": plural[:-1],
        "kind": plural.title()[:-1],
        "listKind": f"{plural.title()[:-1]}List",
    }
    schema = {"type": "object", "description": text, "properties": properties or {}}
    return {
        "apiVersion": "apis.kcp.io/v1alpha1",
        "kind": "APIResourceSchema",
        "metadata": {"name": f"v1.{plural}.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "scope": "Cluster",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def _unbound(count: int, properties: int) -> Script:
    """Discovery of a view of large schemas that nobody binds."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        plurals = [f"r{n}s" for n in range(count)]
        fields = {f"p{n}": {"type": "string", "maxLength": n + 1} for n in range(properties)}
        for plural in plurals:
            await a.setup("POST", f"{_V1}/apiresourceschemas", _schema(plural, plural, fields))
        export = await _made_export(a, "unbound", resources=_resources(plurals))
        paths = _paths(a, export, "unbound")
        yield
        for path in paths:
            for rest in (f"/apis/{_GROUP}/v1", f"/apis/{_GROUP}/v1/{plurals[0]}"):
                await a.send("GET", f"{path}{rest}", room=_outside(a))

    return script


_add("view of 12 unbound schemas of 15,000 properties", _unbound(12, 15_000))


# -- bindings --------------------------------------------------------------------------------------


def _binding(name: str, provider: str, claims: list[dict[str, Any]], **labels: str) -> Any:
    return {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "reference": {"export": {"path": provider, "name": name}},
            "permissionClaims": claims,
        },
    }


def _accepted(count: int) -> list[dict[str, Any]]:
    more = {"verbs": ["*"], "state": "Accepted", "selector": {"matchAll": True}}
    return [
        {"group": "", "resource": "configmaps", "identityHash": f"h{n}", **more}
        for n in range(count)
    ]


def _labelled_writes(count: int) -> Script:
    """Small writes in a workspace whose binding accepts many claims on them."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        await _made_export(a, "labels")
        provider = a.room.prefix.removeprefix("/clusters/")
        room = a.rooms[1]
        binding = _binding("labels", provider, _accepted(count))
        await a.setup("POST", f"{_V2}/apibindings", binding, room=room)
        yield

        async def create(n: int) -> None:
            path = f"/api/v1/namespaces/{room.namespace}/configmaps"
            await a.send("POST", path, {"metadata": meta(f"c{n}")}, room=room)

        await asyncio.gather(*(create(n) for n in range(32)))

    return script


_add("writes of objects that 16,000 claims cover", _labelled_writes(16_000))


def _bound_claims(count: int, bindings: int) -> Script:
    """Changes of an export whose claims are copied into the status of small bindings."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        export = await _made_export(a, "wide")
        claims = _claims(count, export["status"]["identityHash"])
        provider = a.room.prefix.removeprefix("/clusters/")
        for n in range(bindings):
            binding = _binding("wide", provider, [])
            room = a.rooms[1 + n]
            await a.setup("POST", f"{_V2}/apibindings", binding, room=room)
        yield
        for n in range(3):
            patch = {"spec": {"permissionClaims": claims[n:]}}
            await a.send("PATCH", f"{_V2}/apiexports/wide", patch, "application/merge-patch+json")

    return script


_add("export of 11,000 claims, bound and changed", _bound_claims(11_000, 3))


def _default_claims(count: int, workspaces: int) -> Script:
    """Workspaces of a type that binds an export with many claims."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        export = await _made_export(a, "wide")
        path = a.room.prefix.removeprefix("/clusters/")
        claims = _claims(count, export["status"]["identityHash"])
        patch = {"spec": {"permissionClaims": claims}}
        await a.setup("PATCH", f"{_V2}/apiexports/wide", patch, MERGE)
        kind = {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "WorkspaceType",
            "metadata": {"name": "claiming"},
            "spec": {
                "extend": {"with": [{"name": "universal", "path": "root"}]},
                "defaultAPIBindings": [{"path": path, "export": "wide"}],
            },
        }
        await a.setup("POST", f"{_TENANCY}/workspacetypes", kind)
        yield
        for n in range(workspaces):
            spec = {"type": {"name": "claiming", "path": path}}
            workspace: Any = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace"}
            workspace |= {"metadata": {"name": f"w{n}"}, "spec": spec}
            await a.send("POST", f"{_TENANCY}/workspaces", workspace)
        await asyncio.sleep(3)  # their bindings are made after the answer

    return script


_add("workspaces that bind an export of 11,000 claims", _default_claims(11_000, 3))


def _large_bindings(count: int, size: int) -> Script:
    """Touching one of many large bindings, and looking for what it binds."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        room = await make_child(a, "consumer")
        provider = a.room.prefix.removeprefix("/clusters/")
        export = await _made_export(a, "b0")
        for n in range(1, count):
            await _made_export(a, f"b{n}")
        for n in range(count):
            binding = _binding(f"b{n}", provider, [])
            binding["metadata"]["annotations"] = {"x": "x" * 200_000}
            binding["spec"]["permissionClaims"] = _accepted(size)
            await a.setup("POST", f"{_V2}/apibindings", binding, room=room)
        found = await a.request("GET", f"{_V2}/apibindings/b0", room=room)
        cluster = json.loads(found[1])["metadata"]["annotations"]["kcp.io/cluster"]
        view = _paths(a, export, "b0")[0].replace("*", cluster)
        yield
        for n in range(3):
            patch = {"metadata": {"labels": {"n": str(n)}}}
            path = f"{_V2}/apibindings/b{count - 1}"
            await a.send("PATCH", path, patch, "application/merge-patch+json", room=room)
            await a.send("GET", f"/apis/{_GROUP}", room=room)
            await a.send("GET", f"{view}{_V2}/apibindings", room=_outside(a))

    return script


_add("16 bindings of 1 MB, one of them touched", _large_bindings(16, 6_000))


def _listed_schemas(count: int, size: int) -> Script:
    """The schemas that a consumer binds, as lists and one by one."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        room = a.rooms[1]
        plurals = [f"s{n}s" for n in range(count)]
        text = "x y " * (size // 4)
        for plural in plurals:
            await a.setup("POST", f"{_V1}/apiresourceschemas", _schema(plural, text))
        await _made_export(a, "texts", resources=_resources(plurals))
        provider = a.room.prefix.removeprefix("/clusters/")
        await a.setup("POST", f"{_V2}/apibindings", _binding("texts", provider, []), room=room)

        async def cluster() -> str | None:
            found = await a.request("GET", f"{_V2}/apibindings/texts", room=room)
            binding = json.loads(found[1])
            is_bound = (binding.get("status") or {}).get("phase") == "Bound"
            name: str = binding["metadata"]["annotations"]["kcp.io/cluster"]
            return name if is_bound else None

        consumer = await a.wait_for(cluster, 40)
        path = f"/services/apiresourceschema/{consumer}/clusters/*{_V1}/apiresourceschemas"
        yield
        one = f"{path}/v1.{plurals[0]}.{_GROUP}"
        for target, accept in ((path, ""), (one, YAML), (path, YAML)):
            headers = {"Accept": accept} if accept else {}
            await a.send("GET", target, headers=headers, room=_outside(a))

    return script


_add("10 bound schemas of 1.5 MB, listed as JSON and YAML", _listed_schemas(10, 1_500_000))


# -- workspace types -------------------------------------------------------------------------------


def _initializers(count: int) -> Script:
    """Requests of an initializer whose permissions are many."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        rules = [{"verbs": [f"v{n}"]} for n in range(count)]
        kind = {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "WorkspaceType",
            "metadata": {"name": "slow"},
            "spec": {
                "extend": {"with": [{"name": "universal", "path": "root"}]},
                "initializer": True,
                "initializerPermissions": rules,
            },
        }
        made = await a.setup("POST", f"{_TENANCY}/workspacetypes", kind)
        home = made["metadata"]["annotations"]["kcp.io/cluster"]
        path = a.room.prefix.removeprefix("/clusters/")
        workspace = {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": "waiting"},
            "spec": {"type": {"name": "slow", "path": path}},
        }
        await a.setup("POST", f"{_TENANCY}/workspaces", workspace)

        async def cluster() -> str | None:
            found = json.loads((await a.request("GET", f"{_TENANCY}/workspaces/waiting"))[1])
            is_waiting = (found.get("status") or {}).get("phase") == "Initializing"
            name: str = (found.get("spec") or {}).get("cluster") or ""
            return name if is_waiting else None

        place = await a.wait_for(cluster, 20)
        view = f"/services/initializingworkspaces/{home}:slow/clusters/{place}"
        yield
        for _ in range(10):
            await a.send("GET", f"{view}/api/v1/configmaps", room=_outside(a))

    return script


_add("initializer with 100,000 permissions", _initializers(100_000))
