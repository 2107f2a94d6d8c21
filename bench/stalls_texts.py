"""Attacks by the text of a request: paths, JSON, YAML, metadata, patches."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from stalls_attacker import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    YAML,
    Attack,
    Attacker,
    Script,
    meta,
)

ATTACKS: list[Attack] = []


def _add(name: str, script: Script, *, has_peer: bool = True) -> None:
    ATTACKS.append(Attack(name, script, has_peer))


def _path(segments: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        yield
        path = "/a" * segments if a.place.is_peer else "/clusters/" + ":".join("a" * segments)
        for _ in range(3):
            await a.send("GET", path, token="", room=_no_room(a))

    return script


def _no_room(a: Attacker) -> Any:
    from stalls_places import Room

    return Room("", a.room.namespace, a.room.user)


def _create(make: Any, *, times: int = 3, content_type: str = "application/json") -> Script:
    """Create a ConfigMap whose text is made by a function."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        bodies = [_text(make(f"x{n}")) for n in range(times)]
        yield
        for body in bodies:
            await a.send("POST", a.configmaps, body, content_type)

    return script


def _text(made: Any) -> bytes:
    return made if isinstance(made, bytes) else json.dumps(made, separators=(",", ":")).encode()


def _metadata(**fields: Any) -> Any:
    return lambda name: {"metadata": {"name": name, **fields}}


def _owners(count: int) -> list[dict[str, str]]:
    return [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": f"{n}"} for n in range(count)]


def _query(path: str, make: Any, *, times: int = 3) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        bodies = [_text(make(f"x{n}")) for n in range(times)]
        yield
        for body in bodies:
            await a.send("POST", a.configmaps + path, body)

    return script


def _unknown(name: str) -> bytes:
    fields = ",".join(f'"u{n}":1' for n in range(200_000))
    return f'{{"metadata":{{"name":"{name}"}},{fields}}}'.encode()


def _duplicates(name: str) -> bytes:
    fields = ",".join('"a":"b"' for _ in range(200_000))
    return f'{{"metadata":{{"name":"{name}"}},"data":{{{fields}}}}}'.encode()


def _invalid(name: str) -> bytes:
    return b'{"metadata":{"name":"x"},"data":{"\\u00e9\\n":"' + b"\\n\xc3\xa9" * 750_000 + b'",}}'


def _nested(name: str) -> bytes:
    return b'{"metadata":{"name":"x"},"data":' + b'{"a":' * 500_000


def _flow_yaml(name: str) -> bytes:
    inner = ", ".join(f"k{n}: [a, 'b', {{c: d}}]" for n in range(18_000))
    return f"{{metadata: {{name: {name}}}, data: {{{inner}}}}}".encode()[:500_000]


def _block_yaml(name: str) -> bytes:
    inner = "".join(f'  k{n}: "some text"\n' for n in range(24_000))
    return f"metadata:\n  name: {name}\ndata:\n{inner}".encode()


def _alias_bomb(name: str) -> bytes:
    lines = [b"a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    for n in range(1, 12):
        refs = b",".join(b"*a%d" % (n - 1) for _ in range(10))
        lines.append(b"a%d: &a%d [%s]" % (n, n, refs))
    return b"\n".join([b"metadata: {name: x}", *lines])


def _set_element_order(count: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        path = f"/api/v1/namespaces/{a.room.namespace}/serviceaccounts"
        secrets = [{"name": f"s{n}"} for n in range(count)]
        await a.setup("POST", path, {"metadata": {"name": "order"}, "secrets": secrets})
        body = json.dumps(
            {"$setElementOrder/secrets": secrets[::-1], "secrets": secrets[::-1]}
        ).encode()
        yield
        for _ in range(3):
            await a.send("PATCH", f"{path}/order", body, STRATEGIC)

    return script


def _patch(body: Any, content_type: str, *, data: Any = None, times: int = 3) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        await a.setup(
            "POST", a.configmaps, {"metadata": {"name": "patched"}, "data": data or {"a": "b"}}
        )
        text = _text(body)
        yield
        for _ in range(times):
            await a.send("PATCH", f"{a.configmaps}/patched", text, content_type)

    return script


def _apply(keys: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        def body(start: int) -> bytes:
            data = {f"k{n}": "v" for n in range(start, start + keys)}
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}}
            return _text({**made, "data": data})

        bodies = [body(0), body(0), body(10), body(0)]
        yield
        for n, text in enumerate(bodies):
            path = f"{a.configmaps}/applied?fieldManager=m{n}&force=true"
            await a.send("PATCH", path, text, APPLY)

    return script


def _last_applied() -> Script:
    text = "\n".join(f"line: {n}" for n in range(20_000))

    async def script(a: Attacker) -> AsyncIterator[None]:
        key = "kubectl.kubernetes.io/last-applied-configuration"
        body = {"metadata": {"annotations": {key: text}}}
        await a.setup("POST", a.configmaps, {"metadata": meta("last")})
        yield
        for n in range(10):
            body["metadata"]["annotations"]["n"] = str(n)
            await a.send("PATCH", f"{a.configmaps}/last", _text(body), MERGE)

    return script


def _deep_merge(depth: int) -> bytes:
    return b'{"data":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


_add("path of 8,000 segments, no credentials", _path(8_000))
_add("path of 80,000 segments, no credentials", _path(80_000))
_add("5,000 owner references", _create(_metadata(ownerReferences=_owners(5_000))))
_add("40,000 owner references", _create(_metadata(ownerReferences=_owners(40_000)), times=1))
_add("150,000 bad labels", _create(_metadata(labels={f"!{n}": "" for n in range(150_000)})))
_add(
    "150,000 labels with bad values",
    _create(_metadata(labels={f"l{n}": "!" for n in range(150_000)})),
)
_add(
    "150,000 bad annotations", _create(_metadata(annotations={f"!{n}": "" for n in range(150_000)}))
)
_add("200,000 bad finalizers", _create(_metadata(finalizers=[f"!{n}" for n in range(200_000)])))
_add(
    "200,000 finalizers", _create(_metadata(finalizers=[f"a/{n}" for n in range(200_000)]), times=2)
)
_add("200,000 unknown fields, strict", _query("?fieldValidation=Strict", _unknown))
_add("200,000 unknown fields, warned of", _query("?fieldValidation=Warn", _unknown))
_add("200,000 duplicate keys, strict", _query("?fieldValidation=Strict", _duplicates))
_add("3 MB of invalid JSON", _create(_invalid))
_add("JSON nested 500,000 deep", _create(_nested))
_add("500 KB of flow YAML", _create(_flow_yaml, content_type=YAML))
_add("500 KB of block YAML", _create(_block_yaml, content_type=YAML))
_add("YAML alias bomb", _create(_alias_bomb, content_type=YAML))
_add("$setElementOrder of 8,000", _set_element_order(8_000))
_add(
    "JSON patch of 10,000 operations",
    _patch([{"op": "add", "path": f"/data/k{n}", "value": "v"} for n in range(10_000)], JSON_PATCH),
)
_add(
    "JSON patch that copies 200 KB 400 times",
    _patch(
        [{"op": "copy", "from": "/data/a", "path": f"/data/k{n}"} for n in range(400)],
        JSON_PATCH,
        data={"a": "x" * 200_000},
    ),
)
_add("merge patch nested 9,000 deep", _patch(_deep_merge(9_000), MERGE))
_add("merge patch nested 500,000 deep", _patch(_deep_merge(500_000), MERGE))
_add("apply of 100,000 keys, by four managers", _apply(100_000))
_add("last-applied annotation of 20,000 lines", _last_applied())
