"""Attacks by the number of objects that each request involves: quotas, policies, roles, types;
and by bodies of requests that are small by nature."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from stalls_attacker import APPLY, JSON, JSON_PATCH, MERGE, YAML, Attack, Attacker, Script, meta
from stalls_kinds import ADMISSION
from stalls_places import RBAC, Room
from stalls_services import make_child
from stalls_versions import served_scale

ATTACKS: list[Attack] = []
_AT_ONCE = 32
_WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
_FLOW_YAML = "{" + ", ".join(f"k{n}: [a, 'b', {{c: d}}]" for n in range(18_000)) + "}"
_ALIASES = "\n".join(
    ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    + [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
)


def _add(name: str, script: Script, *, has_peer: bool = True) -> None:
    ATTACKS.append(Attack(name, script, has_peer))


async def _many(a: Attacker, path: str, bodies: list[Any], *, is_setup: bool = True) -> None:
    """Create objects, some at a time."""
    create = a.setup if is_setup else a.send
    for start in range(0, len(bodies), _AT_ONCE):
        some = bodies[start : start + _AT_ONCE]
        await asyncio.gather(*(create("POST", path, body) for body in some))


def _config_maps(count: int) -> list[Any]:
    return [{"metadata": {"name": f"c{n}"}} for n in range(count)]


# -- bodies ----------------------------------------------------------------------------------------


def _options(text: str) -> Script:
    """Options of deletes, scales, tokens and reviews, in YAML."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        await a.setup("POST", a.configmaps, {"metadata": meta("kept")})
        scale = await served_scale(a)
        account = f"/api/v1/namespaces/{a.room.namespace}/serviceaccounts/default/token"
        body = text.encode()
        outside = Room("", a.room.namespace, a.room.user)
        access = "/apis/access.pykcp.dev/v1alpha1/accessexplanations"
        yield
        await a.send("DELETE", f"{a.configmaps}/kept", body, YAML)
        await a.send("DELETE", a.configmaps, body, YAML)
        await a.send("PUT", scale, body, YAML)
        await a.send("PATCH", f"{scale}?fieldManager=x", body, APPLY)
        await a.send("POST", account, body, YAML)
        if not a.place.is_peer:
            service = f"/services/access{a.room.prefix}{access}"
            await a.send("POST", service, body, YAML, room=outside)

    return script


def _reviews(text: str) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        body = text.encode()
        yield
        for kind in ("selfsubjectaccessreviews", "subjectaccessreviews", "selfsubjectrulesreviews"):
            await a.send("POST", f"/apis/authorization.k8s.io/v1/{kind}", body, YAML)
        await a.send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body, YAML)

    return script


def _tests(count: int, size: int) -> Script:
    """A JSON patch that compares a large value again and again."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        data = {f"k{n}": "v" for n in range(size)}
        await a.setup("POST", a.configmaps, {"metadata": meta("tested"), "data": data})
        operations = [{"op": "copy", "from": "/metadata/name", "path": "/data/x"}] * count
        operations += [{"op": "move", "from": "/data", "path": "/data"}] * count
        yield
        await a.send("PATCH", f"{a.configmaps}/tested", operations, JSON_PATCH)

    return script


_add("options and scales in 500 KB of flow YAML", _options(_FLOW_YAML))
_add("options and scales in YAML with an alias bomb", _options(_ALIASES))
_add("reviews in 500 KB of flow YAML", _reviews(_FLOW_YAML))
_add("JSON patch that moves 60,000 keys 5,000 times", _tests(5_000, 60_000))


# -- many of a kind for one request ----------------------------------------------------------------


def _quotas(count: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        path = f"/api/v1/namespaces/{a.room.namespace}/resourcequotas"
        hard = {"spec": {"hard": {"count/configmaps": "100000"}}}
        await _many(a, path, [{"metadata": meta(f"q{n}"), **hard} for n in range(count)])
        yield
        await _many(a, a.configmaps, _config_maps(200), is_setup=False)

    return script


def _long_quota(count: int) -> Script:
    """A quota of so many names; one of more is refused."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        path = f"/api/v1/namespaces/{a.room.namespace}/resourcequotas"
        hard = {f"count/r{n}.example.com": "1" for n in range(count - 1)}
        hard["count/configmaps"] = "1000"
        yield
        await a.send("POST", path, {"metadata": meta("q"), "spec": {"hard": hard}})
        more = {f"count/m{n}.example.com": "1" for n in range(5 * count)}
        await a.send("POST", path, {"metadata": meta("r"), "spec": {"hard": {**hard, **more}}})
        await asyncio.sleep(1.5)
        await _many(a, a.configmaps, _config_maps(100), is_setup=False)

    return script


def _labelled(path: str, api_version: str, kind: str, count: int) -> Script:
    """An object of many labels, which controllers and admission read."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        labels = {f"l{n}": "x" for n in range(count)}
        metadata = {"name": "labelled", "labels": labels}
        body = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
        yield
        await a.send("POST", path, body)
        await asyncio.sleep(3)
        await a.send("PATCH", f"{path}/labelled", {"metadata": {"labels": {"u": "v"}}}, MERGE)
        await asyncio.sleep(2)

    return script


def _policies(count: int, expression: str) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["*"],
            "resources": ["configmaps"],
        }
        selector = {"matchLabels": {"kubernetes.io/metadata.name": a.room.namespace}}
        match = {"resourceRules": [rule], "namespaceSelector": selector}
        made, bound = [], []
        for n in range(count):
            name = f"{a.room.namespace}-{n}"
            spec = {"matchConstraints": match, "validations": [{"expression": expression}]}
            made.append({"metadata": meta(name), "spec": spec})
            binding = {"policyName": name, "validationActions": ["Deny"]}
            bound.append({"metadata": meta(name), "spec": binding})
        await _many(a, f"{ADMISSION}/validatingadmissionpolicies", made)
        await _many(a, f"{ADMISSION}/validatingadmissionpolicybindings", bound)
        await asyncio.sleep(1)
        yield
        await _many(a, a.configmaps, _config_maps(100), is_setup=False)

    return script


def _asking_policy(count: int) -> Script:
    """One policy that asks the authorizer about many resources."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["*"],
            "resources": ["configmaps"],
        }
        selector = {"matchLabels": {"kubernetes.io/metadata.name": a.room.namespace}}
        validations = [
            {"expression": f"authorizer.group('g{n}').resource('r').check('get').allowed() || true"}
            for n in range(count)
        ]
        match = {"resourceRules": [rule], "namespaceSelector": selector}
        name = f"asking-{a.room.namespace}"
        policy = {
            "metadata": meta(name),
            "spec": {"matchConstraints": match, "validations": validations},
        }
        binding = {
            "metadata": meta(name),
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }
        await a.setup("POST", f"{ADMISSION}/validatingadmissionpolicies", policy)
        await a.setup("POST", f"{ADMISSION}/validatingadmissionpolicybindings", binding)
        await asyncio.sleep(1)
        large = {"metadata": {"name": "large"}, "data": {"text": "x" * 900_000}}
        yield
        await _many(a, a.configmaps, _config_maps(20), is_setup=False)
        await a.send("POST", a.configmaps, large)

    return script


def _aggregated(count: int) -> Script:
    """Roles that are all made of all others."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        path = f"/apis/{RBAC}/v1/clusterroles"
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
        parts = [
            {
                "metadata": {"name": f"part{n}", "labels": {"part": "1", "stalls": "1"}},
                "rules": [{**rule, "resourceNames": [f"n{n}"]}],
            }
            for n in range(count)
        ]
        selected = {"clusterRoleSelectors": [{"matchLabels": {"part": "1"}}]}
        whole = [{"metadata": meta(f"whole{n}"), "aggregationRule": selected} for n in range(count)]
        yield
        await _many(a, path, whole, is_setup=False)
        await _many(a, path, parts, is_setup=False)

    return script


def _types(count: int) -> Script:
    """A chain of workspace types, each of which extends the one before."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        path = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
        child = await make_child(a, "types")
        own = child.prefix.removeprefix("/clusters/")
        for n in range(count):
            extended = [{"name": f"t{n - 1}", "path": own}] if n else []
            spec = {"extend": {"with": extended}} if extended else {}
            kind = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType"}
            made = {**kind, "metadata": {"name": f"t{n}"}, "spec": spec}
            await a.setup("POST", path, made, room=child)
        kind = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace"}
        last = {"type": {"name": f"t{count - 1}", "path": own}}
        yield
        for n in range(5):
            made = {**kind, "metadata": {"name": f"w{n}"}, "spec": last}
            await a.send("POST", _WORKSPACES, made, room=child)

    return script


def _large_list(count: int) -> Script:
    """Objects of a megabyte as a table with objects, as YAML, and deleted together."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        text = "x" * 1_000_000
        bodies = [{"metadata": meta(f"l{n}"), "data": {"t": text}} for n in range(count)]
        for start in range(0, count, 4):
            some = bodies[start : start + 4]
            await asyncio.gather(*(a.setup("POST", a.configmaps, body) for body in some))
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        yield
        for query, accept in (
            ("?includeObject=Object", table),
            ("", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
            ("", YAML),
            ("?pretty=1", JSON),
        ):
            await a.send("GET", a.configmaps + query, headers={"Accept": accept})
        await a.send("DELETE", a.configmaps)

    return script


def _owned(count: int) -> Script:
    """Many objects of one owner, which is deleted in the foreground."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        owner = await a.setup("POST", a.configmaps, {"metadata": meta("owner")})
        uid = owner["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        blocking = {**reference, "blockOwnerDeletion": True}
        bodies = [
            {"metadata": {"name": f"o{n}", "ownerReferences": [blocking]}} for n in range(count)
        ]
        await _many(a, a.configmaps, bodies)
        yield
        options = {"propagationPolicy": "Foreground"}
        await a.send("DELETE", f"{a.configmaps}/owner", options)
        await asyncio.sleep(4)

    return script


def _nested(depth: int) -> Script:
    """Workspaces in workspaces, which are deleted at the top."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        first = a.room
        try:
            for _ in range(depth):
                a.room = await make_child(a, "w")
        finally:
            a.room = first
        yield
        await a.send("DELETE", f"{_WORKSPACES}/w")
        await asyncio.sleep(3)

    return script


_add("200 quotas in one namespace", _quotas(200))
_add("a namespace of 60,000 labels", _labelled("/api/v1/namespaces", "v1", "Namespace", 60_000))
_add(
    "a workspace of 40,000 labels",
    _labelled(_WORKSPACES, "tenancy.kcp.io/v1alpha1", "Workspace", 40_000),
    has_peer=False,
)
_add("creates under a quota of 10,000 names", _long_quota(10_000), has_peer=False)
_add("500 policies on one kind", _policies(500, "object.metadata.name != 'x'"))
_add("policy of 300 questions to the authorizer", _asking_policy(300))
_add("300 aggregated roles of 300 parts", _aggregated(300), has_peer=False)
_add("60 objects of 1 MB as table, metadata and YAML", _large_list(60))
_add("3,000 objects of one owner, deleted in the foreground", _owned(3_000), has_peer=False)
_add("a chain of 60 workspace types", _types(60), has_peer=False)
_add("20 workspaces in each other deleted", _nested(20), has_peer=False)
