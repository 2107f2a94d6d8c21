"""Attacks by what is read: objects that become longer, that are of an earlier schema, that are
shown in another form, or that many watch."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from stalls_attacker import JSON_PATCH, MERGE, YAML, Attack, Attacker, Script, meta
from stalls_kinds import ADMISSION, CRDS, crd, serve

ATTACKS: list[Attack] = []
PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "as=Table;v=v1;g=meta.k8s.io"
METADATA = "as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_KCP = "/apis/apis.kcp.io"
_numbers = itertools.count(1)


def _add(name: str, script: Script, *, has_peer: bool = True) -> None:
    ATTACKS.append(Attack(name, script, has_peer))


def _bytes(made: Any) -> bytes:
    return json.dumps(made, separators=(",", ":")).encode()


def _group(a: Attacker) -> str:
    return f"r{next(_numbers)}{a.room.namespace}.example.com"


def _widget(group: str, name: str, spec: Any) -> bytes:
    kind = {"apiVersion": f"{group}/v1", "kind": "Widget"}
    return _bytes({**kind, "metadata": {"name": name}, "spec": spec})


def _items(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"list": {"type": "array", "items": item}}}


def _defaulted(fields: int) -> dict[str, Any]:
    number = {"type": "integer", "default": 1}
    return _items({"type": "object", "properties": {f"d{n}": number for n in range(fields)}})


_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_ITEMS = 10_900
"""Empty objects in a body of 32 KB."""


# -- what makes a small object long ----------------------------------------------------------------


def _defaults_of_writes(fields: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        group = _group(a)
        path = await serve(a, crd(group, _defaulted(fields)))
        bodies = [_widget(group, f"w{n}", {"list": [{}] * (_ITEMS - 60)}) for n in range(3)]
        yield
        for body in bodies:
            await a.send("POST", path, body)

    return script


def _defaults_of_reads(fields: int, items: int, count: int) -> Script:
    """The objects are older than the defaults of their schema."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        group = _group(a)
        made = crd(group, _items(_FREE))
        path = await serve(a, made)
        for n in range(count):
            body = json.loads(_widget(group, f"w{n}", {"list": [{}] * items}))
            await a.setup("POST", path, body)
        await _change_schema(a, made, _defaulted(fields))
        yield
        await asyncio.gather(*(a.send("GET", f"{path}/w{n}") for n in range(8)))
        await a.send("GET", path)
        await a.send("GET", path, headers={"Accept": f"application/json;{TABLE}"})

    return script


async def _change_schema(a: Attacker, made: dict[str, Any], spec: dict[str, Any]) -> None:
    """Give a CRD another schema, and wait until it is served."""
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    name, versions = made["metadata"]["name"], {"spec": {"versions": made["spec"]["versions"]}}
    changed = await a.setup("PATCH", f"{CRDS}/{name}", versions, MERGE)
    generation = changed["metadata"]["generation"]
    assert generation > 1, "the schema is another one"
    await asyncio.sleep(0.5)


async def _copies(a: Attacker) -> AsyncIterator[None]:
    path = await serve(a, crd(group := _group(a), _FREE))
    await a.setup("POST", path, json.loads(_widget(group, "w", {"a": [{}] * 8_000})))
    copies = [{"op": "copy", "from": "/spec/a", "path": f"/spec/b{n}"} for n in range(100)]
    yield
    for _ in range(3):
        await a.send("PATCH", f"{path}/w?dryRun=All", _bytes(copies), JSON_PATCH)


_add("770 defaults in each of 10,840 empty elements", _defaults_of_writes(770))
_add("20 defaults in each of 10,840 empty elements", _defaults_of_writes(20))
_add(
    "reads of 20 objects that got 20 defaults in 8,000 elements", _defaults_of_reads(20, 8_000, 20)
)
_add("JSON patch that copies 25 KB 100 times", _copies)


# -- what is read must be decoded ------------------------------------------------------------------


async def _of_an_earlier_schema(a: Attacker) -> AsyncIterator[None]:
    group = _group(a)
    made = crd(group, _FREE)
    path = await serve(a, made)
    await a.setup("POST", path, json.loads(_widget(group, "w", {"a": [{}] * 700_000})))
    await _change_schema(a, made, {**_FREE, "description": "changed"})
    yield
    for _ in range(4):
        await a.send("GET", f"{path}/w")
        await a.send("GET", path)
        await a.send("GET", f"{path}?watch=1&timeoutSeconds=1")


async def _written_with_policy(a: Attacker) -> AsyncIterator[None]:
    """A policy looks at what is changed and deleted."""
    group, name = _group(a), f"p{a.room.namespace}"
    made = crd(group, _FREE)
    path = await serve(a, made)
    await a.setup("POST", path, json.loads(_widget(group, "w", {"a": [{}] * 700_000})))
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "oldObject.metadata.name == 'w'"}],
    }
    bound = {"policyName": name, "validationActions": ["Deny"]}
    policies = f"{ADMISSION}/validatingadmissionpolicies"
    await a.setup("POST", policies, {"metadata": meta(name), "spec": spec})
    bindings = policies.replace("policies", "policybindings")
    await a.setup("POST", bindings, {"metadata": meta(name), "spec": bound})
    await _change_schema(a, made, {**_FREE, "description": "changed"})
    await asyncio.sleep(0.5)
    yield
    await a.send("PATCH", f"{path}/w?dryRun=All", {"spec": {"b": 1}}, MERGE)
    await a.send("DELETE", f"{path}/w?dryRun=All")
    await a.send("DELETE", f"{path}/w")


async def _of_another_version(a: Attacker) -> AsyncIterator[None]:
    claims = [
        {"group": f"g{n}.example.com", "resource": "things", "identityHash": "x", "verbs": ["*"]}
        for n in range(20_000)
    ]
    export = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "x"}}
    path = f"{_KCP}/v1alpha2/apiexports"
    await a.setup("POST", path, {**export, "spec": {"permissionClaims": claims}})
    old = f"{_KCP}/v1alpha1/apiexports"
    yield
    for _ in range(4):
        await a.send("GET", f"{old}/x")
        await a.send("GET", old)
        await a.send("GET", f"{old}?watch=1&timeoutSeconds=1")


_add("reads of 2 MB of an earlier schema", _of_an_earlier_schema)
_add("writes and deletes of 2 MB of an earlier schema, with a policy", _written_with_policy)
_add("reads of 2 MB in another version", _of_another_version, has_peer=False)


# -- other forms -----------------------------------------------------------------------------------


def _watches(label: str, accept: str, data: Any, count: int) -> Script:
    """Of a ConfigMap that is changed while it is watched."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        path = f"{a.configmaps}/big"
        await a.setup("POST", a.configmaps, {"metadata": meta("big"), "data": data})
        one = f"{a.configmaps}?fieldSelector=metadata.name%3Dbig&"
        places = ("/api/v1/configmaps?", f"{a.configmaps}?", one)

        async def follow(n: int) -> None:
            url = f"{places[n % 3]}watch=1&timeoutSeconds=6"
            with contextlib.suppress(Exception):
                await a.request("GET", url, headers={"Accept": accept})

        tasks = [asyncio.create_task(follow(n)) for n in range(count)]
        await asyncio.sleep(2)
        yield
        for n in range(2):
            await a.send("PATCH", path, {"metadata": {"labels": {label: f"{n}"}}}, MERGE)
        await asyncio.wait(tasks)

    return script


_KEYS = {f"key{n}": "x" for n in range(60_000)}
_add("96 table watches of a dense object", _watches("t", f"application/json;{TABLE}", _KEYS, 96))
_add("protobuf watches of 60,000 keys", _watches("p", PROTOBUF, _KEYS, 12))


async def _whole_tables(a: Attacker) -> AsyncIterator[None]:
    value = "x" * 100

    async def create(start: int) -> None:
        for n in range(start, 6_000, 16):
            await a.setup("POST", a.configmaps, {"metadata": meta(f"c{n}"), "data": {"a": value}})

    await asyncio.gather(*(create(n) for n in range(16)))
    whole = f"{a.configmaps}?includeObject=Object"
    yield
    await a.send("GET", whole, headers={"Accept": f"{YAML};{TABLE}"})
    await a.send("GET", f"{whole}&pretty=1", headers={"Accept": f"application/json;{TABLE}"})
    await a.send("GET", whole, headers={"Accept": f"application/json;{TABLE}"})


async def _long_metadata(a: Attacker) -> AsyncIterator[None]:
    labels = {f"l{n}": f"{n}" for n in range(60_000)}
    await a.setup("POST", a.configmaps, {"metadata": {"name": "big", "labels": labels}})
    yield
    for form in (METADATA, TABLE):
        for kind in (YAML, "application/json"):
            await a.send("GET", f"{a.configmaps}/big", headers={"Accept": f"{kind};{form}"})
    lists = METADATA.replace("Metadata;", "MetadataList;")
    for kind in (YAML, "application/json", PROTOBUF):
        await a.send("GET", a.configmaps, headers={"Accept": f"{kind};{lists}"})


async def _discovery(a: Attacker) -> AsyncIterator[None]:
    group = _group(a)
    await a.setup("POST", CRDS, crd(group, _FREE, 3_000))

    async def is_served() -> bool:
        return (await a.request("GET", f"/apis/{group}"))[0] == 200

    await a.wait_for(is_served, 20)
    yield
    for path in (f"/apis/{group}", "/apis"):
        for _ in range(4):
            await a.send("GET", path, headers={"Accept": YAML})
            await a.send("GET", path, headers={"Accept": PROTOBUF})


_add("tables of 6,000 whole objects, in YAML and pretty", _whole_tables)
_add("60,000 labels as metadata and tables", _long_metadata)
_add("discovery of 3,000 versions in YAML and protobuf", _discovery)
