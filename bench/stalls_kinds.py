"""Attacks by what kinds and rules say: schemas, CEL, roles, policies, webhooks, exports."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from stalls_attacker import APPLY, MERGE, Attack, Attacker, Script, meta
from stalls_places import RBAC

from pykcp.testing.https import HTTPSServer, Received

ATTACKS: list[Attack] = []
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_numbers = itertools.count(1)


def _add(name: str, script: Script, *, has_peer: bool = True, is_hooked: bool = False) -> None:
    ATTACKS.append(Attack(name, script, has_peer, is_hooked))


def _bytes(made: Any) -> bytes:
    return json.dumps(made, separators=(",", ":")).encode()


# -- schemas ---------------------------------------------------------------------------------------


def crd(group: str, spec: dict[str, Any], versions: int = 1) -> dict[str, Any]:
    """A CustomResourceDefinition of Widgets whose spec has this schema."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta(f"widgets.{group}"),
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {"name": f"v{n + 1}", "served": True, "storage": n == 0, "schema": schema}
                for n in range(versions)
            ],
        },
    }


def _group(a: Attacker) -> str:
    """The peer has one space for all tenants, so every attack has its own group there."""
    return f"g{next(_numbers)}{a.room.namespace}.example.com"


async def serve(a: Attacker, made: dict[str, Any]) -> str:
    """Create a CRD and wait until it is served; the path of its objects."""
    await a.setup("POST", CRDS, made)
    path = f"/apis/{made['spec']['group']}/v1/namespaces/{a.room.namespace}/widgets"

    async def is_served() -> bool:
        return (await a.request("GET", path))[0] == 200

    await a.wait_for(is_served, 20)
    return path


def _widget(group: str, name: str, spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }


def _schema_and_object(spec: dict[str, Any], value: Any, times: int = 3) -> Script:
    """Both the CRD and objects of it are the attack."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        group = _group(a)
        made = _bytes(crd(group, spec))
        bodies = [_bytes(_widget(group, f"w{n}", value)) for n in range(times)]
        path = f"/apis/{group}/v1/namespaces/{a.room.namespace}/widgets"
        yield
        if await a.send("POST", CRDS, made) != 201:
            return
        for body in bodies:
            for _ in range(40):
                status, _answer = await a.request("GET", path)
                if status == 200:
                    break
                await asyncio.sleep(0.05)
            await a.send("POST", path, body)

    return script


def _object(spec: dict[str, Any], value: Any, times: int = 2, *, applied: bool = False) -> Script:
    """Only objects are the attack."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        group = _group(a)
        path = await serve(a, crd(group, spec))
        bodies = [_bytes(_widget(group, f"w{n}", value)) for n in range(times)]
        yield
        for n, body in enumerate(bodies):
            if applied:
                await a.send("PATCH", f"{path}/w{n}?fieldManager=x", body, APPLY)
            else:
                await a.send("POST", path, body)

    return script


def _crd_only(spec: dict[str, Any], versions: int = 1) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        body = _bytes(crd(_group(a), spec, versions))
        yield
        await a.send("POST", f"{CRDS}?dryRun=All", body)
        await a.send("POST", CRDS, body)
        await a.send("GET", "/apis")

    return script


def _of(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def _text_field(**more: Any) -> dict[str, Any]:
    return _of("object", properties={"text": _of("string", **more)})


def _rules(rules: list[str]) -> dict[str, Any]:
    found = [{"rule": rule} for rule in rules]
    return _of(
        "object",
        properties={"n": _of("integer"), "text": _of("string", maxLength=100_000)},
        **{"x-kubernetes-validations": found},
    )


PATTERNS = {
    "^(a?){27}a{27}$": "a" * 27,
    "^((a?){30}){30}$": "a" * 1000 + "b",
    "(a|a)*b": "a" * 100_000,
}
for _pattern, _value in PATTERNS.items():
    _add(f"pattern {_pattern}", _schema_and_object(_text_field(pattern=_pattern), {"text": _value}))
    _add(
        f"CEL matches {_pattern}",
        _schema_and_object(_rules([f"self.text.matches('{_pattern}')"]), {"text": _value}),
    )

_ITEMS = {"type": "array", "items": {"type": "integer"}}
_LIST = _of("object", properties={"list": _ITEMS})
_SET = _of("object", properties={"list": {**_ITEMS, "x-kubernetes-list-type": "set"}})
_MAP_ITEM = _of("object", properties={"k": _of("string")}, required=["k"])
_MAP = _of(
    "object",
    properties={
        "list": {
            "type": "array",
            "items": _MAP_ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        }
    },
)
_DEFAULTS = _of(
    "object",
    properties={
        "list": {
            "type": "array",
            "items": _of(
                "object",
                properties={f"d{n}": _of("string", default="x") for n in range(50)},
            ),
        }
    },
)
_add("100,000 type errors in a custom object", _object(_LIST, {"list": ["x"] * 100_000}))
_add(
    "200,000 unknown fields in a custom object",
    _object(_LIST, {f"u{n}": 1 for n in range(200_000)}),
)
_add("a set of 200,000 numbers", _object(_SET, {"list": list(range(200_000))}))
_add("a set of 200,000 equal numbers", _object(_SET, {"list": [1] * 200_000}))
_add("a map of 100,000 elements", _object(_MAP, {"list": [{"k": f"{n}"} for n in range(100_000)]}))
_add("a map of 100,000 equal elements", _object(_MAP, {"list": [{"k": "a"}] * 100_000}))
_add(
    "apply of a map of 60,000 elements",
    _object(_MAP, {"list": [{"k": f"{n}"} for n in range(60_000)]}, applied=True),
)
_add("50 defaults in each of 20,000 elements", _object(_DEFAULTS, {"list": [{}] * 20_000}))
_add("CRD of 3,000 versions", _crd_only(_LIST, 3_000))
_add(
    "CRD of 30,000 properties",
    _crd_only(_of("object", properties={f"p{n}": _of("string") for n in range(30_000)})),
)
_add("CRD with an enum of 100,000", _crd_only(_text_field(enum=[f"e{n}" for n in range(100_000)])))
_add("CRD of 3,000 CEL rules", _crd_only(_rules([f"self.n < {n}" for n in range(3_000)])))
_add("CRD with one rule of 5,000 &&", _crd_only(_rules([" && ".join(["self.n < 1"] * 5_000)])))
_add(
    "CRD with one rule of 5,000 parentheses",
    _crd_only(_rules(["(" * 5_000 + "true" + ")" * 5_000])),
)
_add(
    "CRD with a rule of 100,000 list elements",
    _crd_only(_rules([f"self.n in [{','.join(map(str, range(100_000)))}]"])),
)


def _nested_schema(depth: int) -> dict[str, Any]:
    found = _of("string")
    for _ in range(depth):
        found = _of("object", properties={"a": found})
    return found


_add("CRD nested 400 deep", _crd_only(_nested_schema(400)))
_add(
    "CEL over 1,000,000 pairs",
    _schema_and_object(
        _of(
            "object",
            properties={"list": {**_ITEMS, "maxItems": 1000}},
            **{
                "x-kubernetes-validations": [
                    {"rule": "self.list.all(a, self.list.all(b, a + b >= 0))"}
                ]
            },
        ),
        {"list": list(range(1000))},
    ),
)
_add(
    "400 CEL rules over 5,000 elements",
    _schema_and_object(
        _of(
            "object",
            properties={
                "list": {
                    "type": "array",
                    "maxItems": 5_000,
                    "items": _of(
                        "integer",
                        **{
                            "x-kubernetes-validations": [
                                {"rule": f"self < {n + 10_000}"} for n in range(20)
                            ]
                        },
                    ),
                }
            },
        ),
        {"list": list(range(5_000))},
    ),
)


def _many_crds(count: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        groups = [_group(a) for _ in range(count)]
        for start in range(0, count, 20):
            await asyncio.gather(
                *(a.setup("POST", CRDS, crd(g, _LIST)) for g in groups[start : start + 20])
            )
        yield
        for path in ("/openapi/v2", "/openapi/v3", "/apis", f"/openapi/v3/apis/{groups[0]}/v1"):
            await a.send("GET", path)
        await a.send("GET", "/apis", headers={"Accept": _AGGREGATED})

    return script


_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_add("discovery and OpenAPI of 300 CRDs", _many_crds(300))


# -- roles and reviews -----------------------------------------------------------------------------


def _role(rules: list[dict[str, Any]], held: list[dict[str, Any]]) -> Script:
    """A role created by a user who holds some rights, and is asked about each of the role's."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        await a.give_limited_rights(held)
        body = _bytes({"metadata": meta("wide"), "rules": rules})
        yield
        for _ in range(3):
            await a.send("POST", f"/apis/{RBAC}/v1/clusterroles", body, token="limited-token")

    return script


def _cube(size: int) -> list[dict[str, Any]]:
    return [
        {
            "apiGroups": [f"g{n}" for n in range(size)],
            "resources": [f"r{n}" for n in range(size)],
            "verbs": [f"v{n}" for n in range(size)],
        }
    ]


_ONE = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
_NAMED = [
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [f"n{n}"], "verbs": ["get"]}
    for n in range(20_000)
]
_add("cluster role of 50×50×50", _role(_cube(50), _ONE))
_add("cluster role of 1000×1000×1000", _role(_cube(1000), _ONE))
_add(
    "300 names against 20,000 rules",
    _role([{**_ONE[0], "resourceNames": [f"n{20_000 - n}" for n in range(300)]}], _NAMED),
)


def _rules_review() -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        await a.give_limited_rights(_NAMED)
        body = {"spec": {"namespace": a.room.namespace}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        yield
        for _ in range(3):
            await a.send("POST", path, body, token="limited-token")
            await a.send("GET", f"{a.configmaps}/n19999", token="limited-token")

    return script


_add("rules review of 20,000 rules", _rules_review())


def _review(spec: dict[str, Any]) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        attributes = {"verb": "get", "resource": "configmaps", "namespace": a.room.namespace}
        body = _bytes({"spec": {"resourceAttributes": attributes, **spec}})
        yield
        for _ in range(3):
            await a.send("POST", REVIEWS, body)

    return script


def _unread_reviews(fields: dict[str, Any]) -> Script:
    """Bodies that say much of which nothing is used, to all kinds of reviews."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        attributes = {"verb": "get", "resource": "configmaps", "namespace": a.room.namespace}
        asked = {"user": "x", "resourceAttributes": attributes, "token": "x"}
        body = _bytes({"spec": {**asked, "namespace": a.room.namespace}, **fields})
        kinds = ("subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews")
        paths = [f"/apis/authorization.k8s.io/v1/{kind}" for kind in kinds]
        yield
        for path in (*paths, "/apis/authentication.k8s.io/v1/tokenreviews"):
            await a.send("POST", path, body)

    return script


_WARRANT = '{"user":"u%d"}'


def _warrants(count: int) -> Script:
    warrants = [_WARRANT % n for n in range(count)]
    return _review({"user": "x", "extra": {"authorization.kcp.io/warrant": warrants}})


_add("20,000 warrants in a review", _warrants(20_000), has_peer=False)
_add("60,000 warrants in a review", _warrants(60_000), has_peer=False)
_add(
    "30,000 scopes in a review",
    _review(
        {
            "user": "x",
            "extra": {"authentication.kcp.io/scopes": [f"cluster:c{n}" for n in range(30_000)]},
        }
    ),
    has_peer=False,
)
_add(
    "50,000 groups in a review",
    _review({"user": "x", "groups": [f"g{n}" for n in range(50_000)]}),
)
_add(
    "30,000 extra keys in a review",
    _review({"user": "x", "extra": {f"e{n:x}": ["a"] for n in range(30_000)}}),
)
_add(
    "3 MB of unknown fields in reviews",
    _unread_reviews({f"u{n}": [] for n in range(240_000)}),
)
_add(
    "500 KB of unknown fields in reviews",
    _unread_reviews({f"u{n}": [] for n in range(36_000)}),
)


def _impersonation() -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        headers = {"Impersonate-User": "x"}
        headers |= {f"Impersonate-Extra-{'%41' * 20}{n}": "v" * 100 for n in range(150)}
        yield
        for _ in range(50):
            await a.send("GET", a.configmaps, headers=headers)

    return script


_add("impersonation with 150 extra headers", _impersonation())


# -- selectors -------------------------------------------------------------------------------------


def _selector(name: str, text: str) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        from stalls_load import fill

        await fill(a, a.room, 2_000, size=100)
        path = f"{a.configmaps}?{name}={quote(text)}"
        yield
        for _ in range(3):
            await a.send("GET", path)

    return script


_add(
    "label selector of 15,000 terms",
    _selector("labelSelector", ",".join(f"a{n}!=b" for n in range(15_000))),
)
_add(
    "label selector with 15,000 values",
    _selector("labelSelector", f"a notin ({','.join(f'v{n}' for n in range(15_000))})"),
)
_add(
    "field selector of 15,000 terms",
    _selector("fieldSelector", ",".join(f"metadata.name!=b{n}" for n in range(15_000))),
)
_add(
    "label selector of 3,000 terms",
    _selector("labelSelector", ",".join(f"a{n}!=b" for n in range(3_000))),
)


# -- policies and webhooks -------------------------------------------------------------------------


def _policy(validations: list[dict[str, Any]], **spec: Any) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["*"],
            "resources": ["configmaps"],
        }
        selector = {"matchLabels": {"kubernetes.io/metadata.name": a.room.namespace}}
        constraints = {"resourceRules": [rule], "namespaceSelector": selector}
        body = _bytes(
            {
                "metadata": meta(f"p{a.room.namespace}"),
                "spec": {"matchConstraints": constraints, "validations": validations, **spec},
            }
        )
        bound = {
            "metadata": meta(f"p{a.room.namespace}"),
            "spec": {"policyName": f"p{a.room.namespace}", "validationActions": ["Deny"]},
        }
        big = _bytes({"metadata": {"name": "big"}, "data": {f"k{n}": "v" for n in range(20_000)}})
        yield
        if await a.send("POST", f"{ADMISSION}/validatingadmissionpolicies", body) != 201:
            return
        await a.send("POST", f"{ADMISSION}/validatingadmissionpolicybindings", bound)
        await asyncio.sleep(1)
        for _ in range(3):
            await a.send("POST", f"{a.configmaps}?dryRun=All", big)

    return script


_add(
    "policy of 2,000 validations",
    _policy([{"expression": f"size(object.data) < {n + 10**6}"} for n in range(2_000)]),
)
_add(
    "policy over 20,000 keys, twice nested",
    _policy([{"expression": "object.data.all(k, object.data.all(l, k != l || k == l))"}]),
)
_add(
    "policy of 100 variables, each twice the one before",
    _policy(
        [{"expression": "size(variables.v30) > 0"}],
        variables=[{"name": "v0", "expression": "'x'"}]
        + [
            {"name": f"v{n}", "expression": f"variables.v{n - 1} + variables.v{n - 1}"}
            for n in range(1, 31)
        ],
    ),
)


def _large_configuration(hooks: int, terms: int) -> Script:
    """Webhooks for nothing, whose configuration is read again after each change."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
        excluded = [{"key": f"k{n}", "operator": "NotIn", "values": ["x"]} for n in range(terms)]
        webhook = {
            "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "rules": [{**rule, "resources": ["nothing"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "objectSelector": {"matchExpressions": excluded},
        }
        webhooks = [{**webhook, "name": f"h{n}.example.com"} for n in range(hooks)]
        path, name = f"{ADMISSION}/validatingwebhookconfigurations", f"w{a.room.namespace}"
        body = _bytes({"metadata": meta(name), "webhooks": webhooks})
        yield
        await a.send("POST", path, body)
        for n in range(3):
            await a.send("POST", a.configmaps, {"metadata": {"name": f"c{n}"}})
            changed = {"metadata": {"labels": {"n": f"{n}"}}}
            await a.send("PATCH", f"{path}/{name}", changed, MERGE)

    return script


_add("8,000 webhooks for nothing", _large_configuration(8_000, 0))
_add("a webhook with a selector of 30,000 terms", _large_configuration(1, 30_000))


def _mutating_policy(expression: str, data: dict[str, str], count: int = 3) -> Script:
    """A policy that changes ConfigMaps; they are created and changed."""

    async def script(a: Attacker) -> AsyncIterator[None]:
        name = f"m{a.room.namespace}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"]}
        is_patch = expression.startswith("[")
        form, field = ("JSONPatch", "jsonPatch") if is_patch else (_CONFIGURATION, _CONFIGURED)
        spec = {
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["configmaps"]}]},
            "reinvocationPolicy": "IfNeeded",
            "mutations": [{"patchType": form, field: {"expression": expression}}],
        }
        path = f"{ADMISSION}/mutatingadmissionpolicies"
        await a.setup("POST", path, {"metadata": meta(name), "spec": spec})
        bound = {"metadata": meta(name), "spec": {"policyName": name}}
        await a.setup("POST", path.replace("policies", "policybindings"), bound)
        await asyncio.sleep(1)
        bodies = [_bytes({"metadata": {"name": f"c{n}"}, "data": data}) for n in range(count)]
        yield
        for n, body in enumerate(bodies):
            await a.send("POST", f"{a.configmaps}?dryRun=All", body)
            await a.send("POST", a.configmaps, body)
            await a.send("PATCH", f"{a.configmaps}/c{n}", {"data": {"more": "x"}}, MERGE)

    return script


_CONFIGURATION, _CONFIGURED = "ApplyConfiguration", "applyConfiguration"
_add(
    "mutating policy for 60,000 keys",
    _mutating_policy(
        "Object{metadata: Object.metadata{labels: {'a': 'b'}}}",
        {f"k{n}": "" for n in range(60_000)},
    ),
)
_add(
    "mutating policy that copies 25 KB 30 times",
    _mutating_policy(
        "["
        + ",".join(f"JSONPatch{{op:'copy',from:'/data/a',path:'/data/b{n}'}}" for n in range(30))
        + "]",
        {"a": "\n" * 12_000},
    ),
)


def hook_configuration(url: str, ca: str, namespace: str, name: str) -> dict[str, Any]:
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca.encode()).decode()},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["*"],
                "resources": ["configmaps"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 10,
    }
    return {"metadata": meta(f"{name}-{namespace}"), "webhooks": [webhook]}


def review_answer(received: Received, **more: Any) -> dict[str, Any]:
    uid = received.json["request"]["uid"]
    response = {"uid": uid, "allowed": True, **more}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _patching_hook(operations: list[dict[str, Any]], size: int = 1) -> Script:
    """A webhook of the attacker answers with a patch of an object of that size."""
    patch = base64.b64encode(_bytes(operations)).decode()

    async def script(a: Attacker) -> AsyncIterator[None]:
        server = HTTPSServer()
        url = server.on("/p", lambda r: review_answer(r, patchType="JSONPatch", patch=patch))
        hook = hook_configuration(url, server.ca, a.room.namespace, "patching")
        await a.setup("POST", f"{ADMISSION}/mutatingwebhookconfigurations", hook)
        await asyncio.sleep(1)
        yield
        for n in range(2):
            made = {"metadata": {"name": f"h{n}"}, "data": {"a": "b" * size}}
            await a.send("POST", a.configmaps, made)
        server.close()

    return script


_add(
    "webhook patch that copies 2.9 MB 400 times",
    _patching_hook(
        [{"op": "copy", "from": "/data/a", "path": f"/data/k{n}"} for n in range(400)], 2_900_000
    ),
)
_add(
    "webhook patch that doubles 30 times",
    _patching_hook(
        [{"op": "add", "path": "/data/d0", "value": {"a": "b" * 100}}]
        + [{"op": "copy", "from": "/data", "path": f"/data/e{n}"} for n in range(30)]
    ),
)
_add(
    "webhook patch nested 5,000 deep",
    _patching_hook([{"op": "add", "path": "/data" + "/a" * 5_000, "value": 1}]),
)
_add(
    "webhook patch of 60,000 operations",
    _patching_hook([{"op": "add", "path": "/data/a", "value": "b"}] * 60_000),
)


def _hanging_hooks(count: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        server = HTTPSServer()

        async def hang(received: Received) -> dict[str, Any]:
            await asyncio.sleep(9)
            return review_answer(received)

        for room in a.rooms:
            hook = hook_configuration(server.on("/h", hang), server.ca, room.namespace, "hanging")
            path = f"{ADMISSION}/validatingwebhookconfigurations"
            await a.setup("POST", path, hook, room=room)
        await asyncio.sleep(1)
        yield

        async def create(n: int) -> None:
            room = a.rooms[n % len(a.rooms)]
            path = f"/api/v1/namespaces/{room.namespace}/configmaps"
            await a.send("POST", path, {"metadata": {"name": f"h{n}"}}, room=room)

        await asyncio.gather(*(create(n) for n in range(count)))
        server.close()

    return script


_add(
    "60 requests into hanging webhooks, other's webhook answers", _hanging_hooks(60), is_hooked=True
)
_add(
    "400 requests into hanging webhooks, other's webhook answers",
    _hanging_hooks(400),
    is_hooked=True,
)


# -- exports and workspaces ------------------------------------------------------------------------

_KCP = "/apis/apis.kcp.io/v1alpha1"
_KCP2 = "/apis/apis.kcp.io/v1alpha2"


def _schema(group: str, rules: int) -> dict[str, Any]:
    made = crd(group, _rules([f"self.n < {n + 10}" for n in range(rules)]))
    version = made["spec"]["versions"][0]
    version["schema"] = version["schema"]["openAPIV3Schema"]
    return {
        "apiVersion": "apis.kcp.io/v1alpha1",
        "kind": "APIResourceSchema",
        "metadata": {"name": f"today.widgets.{group}"},
        "spec": {
            **made["spec"],
            "versions": [version],
            "names": {**made["spec"]["names"], "listKind": "WidgetList"},
        },
    }


def _export(rules: int, bindings: int = 1) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        group = _group(a)
        schema = _bytes(_schema(group, rules))
        resource = {"name": "widgets", "group": group, "schema": f"today.widgets.{group}"}
        export = {
            "apiVersion": "apis.kcp.io/v1alpha2",
            "kind": "APIExport",
            "metadata": {"name": "wide"},
            "spec": {"resources": [{**resource, "storage": {"crd": {}}}]},
        }
        provider = a.room.prefix.removeprefix("/clusters/")
        binding = {
            "apiVersion": "apis.kcp.io/v1alpha2",
            "kind": "APIBinding",
            "metadata": {"name": "wide"},
            "spec": {"reference": {"export": {"path": provider, "name": "wide"}}},
        }
        widget = _widget(group, "w", {"n": 1})
        yield
        if await a.send("POST", f"{_KCP}/apiresourceschemas", schema) != 201:
            return
        await a.send("POST", f"{_KCP2}/apiexports", export)
        for room in a.rooms[1:]:
            await a.send("POST", f"{_KCP2}/apibindings", binding, room=room)
        path = f"/apis/{group}/v1/namespaces/default/widgets"
        for room in a.rooms[1:]:
            for _ in range(60):
                if (await a.request("GET", path, room=room))[0] == 200:
                    break
                await asyncio.sleep(0.1)
            await a.send("POST", path, widget, room=room)

    return script


_add("schema of 9,000 CEL rules created, bound and used", _export(9_000), has_peer=False)
_add("schema of 1,000 CEL rules created, bound and used", _export(1_000), has_peer=False)


def _claims(count: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        claims = [
            {
                "group": f"g{n}.example.com",
                "resource": "things",
                "verbs": ["*"],
                "identityHash": "x",
            }
            for n in range(count)
        ]
        export = {
            "apiVersion": "apis.kcp.io/v1alpha2",
            "kind": "APIExport",
            "metadata": {"name": "claims"},
            "spec": {"permissionClaims": claims},
        }
        body = _bytes(export)
        yield
        await a.send("POST", f"{_KCP2}/apiexports", body)

    return script


_add("export with 10,000 permission claims", _claims(10_000), has_peer=False)
_WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"


def _workspace(n: int) -> dict[str, Any]:
    kind = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace"}
    return {**kind, "metadata": {"name": f"w{n}"}}


def _workspaces(count: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        yield
        until = time.perf_counter() + 6

        async def create(start: int) -> None:
            for n in range(start, count, 64):
                if time.perf_counter() > until:
                    return
                await a.send("POST", _WORKSPACES, _workspace(n))

        await asyncio.gather(*(create(n) for n in range(64)))

    return script


def _tree(count: int) -> Script:
    async def script(a: Attacker) -> AsyncIterator[None]:
        async def create(n: int) -> None:
            await a.setup("POST", _WORKSPACES, _workspace(n))

        for start in range(0, count, 32):
            await asyncio.gather(*(create(n) for n in range(start, min(count, start + 32))))

        async def are_ready() -> bool:
            found = json.loads((await a.request("GET", _WORKSPACES))[1])["items"]
            return all((w.get("status") or {}).get("phase") == "Ready" for w in found)

        await a.wait_for(are_ready, 30)
        yield
        await a.send("DELETE", _WORKSPACES)

    return script


_add("workspaces created, 64 at a time", _workspaces(5_000), has_peer=False)
_add("400 workspaces deleted at once", _tree(400), has_peer=False)
