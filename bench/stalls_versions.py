"""Attacks by kinds with a conversion webhook, and through the `scale` subresource."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

from stalls_attacker import APPLY, MERGE, Attack, Attacker, Script
from stalls_kinds import CRDS, crd

from pykcp.testing.https import HTTPSServer, Received

ATTACKS: list[Attack] = []
_GROUP = "versions.example.com"
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _add(name: str, script: Script) -> None:
    ATTACKS.append(Attack(name, script, has_peer=True))


def _renamed(received: Received) -> dict[str, Any]:
    """Converts by changing the version only."""
    request = received.json["request"]
    wanted = request["desiredAPIVersion"]
    response = {
        "uid": request["uid"],
        "result": {"status": "Success"},
        "convertedObjects": [{**obj, "apiVersion": wanted} for obj in request["objects"]],
    }
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    return {**kind, "response": response}


def _converted_crd(server: HTTPSServer, spec: dict[str, Any]) -> dict[str, Any]:
    """Two versions, the first of which is stored."""
    made = crd(_GROUP, spec, versions=2)
    client = {
        "url": server.on("/convert", _renamed),
        "caBundle": base64.b64encode(server.ca.encode()).decode(),
    }
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
    made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return made


def _path(a: Attacker, version: str) -> str:
    return f"/apis/{_GROUP}/{version}/namespaces/{a.room.namespace}/widgets"


def _widget(version: str, name: str, spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": f"{_GROUP}/{version}", "kind": "Widget"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


async def _wait_until_served(a: Attacker, path: str) -> None:
    async def is_served() -> bool:
        return (await a.request("GET", path))[0] == 200

    await a.wait_for(is_served, 30)


def _converted_schema(properties: int) -> Script:
    """The definition is large, and objects of it are small."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        server = HTTPSServer()
        fields = {f"p{n}": {"type": "string"} for n in range(properties)}
        body = json.dumps(_converted_crd(server, {"type": "object", "properties": fields}))
        yield
        try:
            await a.send("POST", CRDS, body.encode())
            await _wait_until_served(a, _path(a, "v2"))
            for n in range(3):
                await a.send("POST", _path(a, "v2"), _widget("v2", f"w{n}", {"p1": "x"}))
            await a.send("GET", _path(a, "v2"))
            await a.send("PATCH", f"{_path(a, 'v2')}/w0", {"spec": {"p2": "y"}}, MERGE)
        finally:
            await asyncio.to_thread(server.close)

    return script


def _converted_objects(keys: int) -> Script:
    """Objects are large; they are written in one version and stored in another."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        server = HTTPSServer()
        await a.setup("POST", CRDS, _converted_crd(server, _OPEN))
        await _wait_until_served(a, _path(a, "v2"))
        spec = {f"k{n}": "v" for n in range(keys)}
        body = json.dumps(_widget("v2", "w", spec)).encode()
        applied = json.dumps(_widget("v2", "applied", spec)).encode()
        yield
        try:
            path = _path(a, "v2")
            await a.send("POST", path, body)
            await a.send("PATCH", f"{path}/w", {"spec": {"k0": "w"}}, MERGE)
            await a.send("PATCH", f"{_path(a, 'v1')}/w", {"spec": {"k1": "w"}}, MERGE)
            await a.send("PATCH", f"{path}/w", {"spec": {"k2": "w"}}, MERGE)
            for manager in ("a", "b"):
                query = f"?fieldManager={manager}&force=true"
                await a.send("PATCH", f"{path}/applied{query}", applied, APPLY)
            await a.send("GET", f"{path}/w")
            await a.send("DELETE", f"{path}/w")
        finally:
            await asyncio.to_thread(server.close)

    return script


def _scaled_crd() -> dict[str, Any]:
    number = {"type": "integer"}
    made = crd(
        _GROUP,
        {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"replicas": number},
        },
    )
    version = made["spec"]["versions"][0]
    version["subresources"] = {
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    }
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    properties["status"] = {"type": "object", "properties": {"replicas": number}}
    return made


async def served_scale(a: Attacker, keys: int = 1) -> str:
    """The path of the scale of an object with so many keys."""
    await a.setup("POST", CRDS, _scaled_crd())
    path = _path(a, "v1")
    await _wait_until_served(a, path)
    spec = {"replicas": 1, **{f"k{n}": "v" for n in range(keys)}}
    await a.setup("POST", path, _widget("v1", "w", spec))
    return f"{path}/w/scale"


def _scales(keys: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        path = await served_scale(a, keys)
        yield
        for n in range(5):
            await a.send("PATCH", path, {"spec": {"replicas": n + 2}}, MERGE)
            await a.send("GET", path)

    return script


_add("CRD of 20,000 properties with a conversion webhook", _converted_schema(20_000))
_add("objects of 100,000 keys with a conversion webhook", _converted_objects(100_000))
_add("scale of an object of 150,000 keys", _scales(150_000))
