"""Bodies as large as requests may be: every function over them is linear in their size.

The inputs are so large that anything quadratic would take longer than a test may.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from pykcp.apis.kube.validation import strategy_for
from pykcp.apis.kube.validation.crd.schema import SchemaStrictness, schema_errors
from pykcp.apis.kube.validation.crd.structural import structural_errors
from pykcp.apis.kube.validation.gojson import object_error
from pykcp.apis.kube.validation.objectmeta import name_is_subdomain, validate_object_meta
from pykcp.apis.kube.validation.rules import NO_FACTS
from pykcp.auth.user import User
from pykcp.machinery.patch import gojson, jsonpatch, managed, strategic
from pykcp.machinery.patch.apply import FieldManager
from pykcp.machinery.patch.fieldset import union_all
from pykcp.machinery.patch.shapes import same
from pykcp.machinery.schema import diagnose
from pykcp.machinery.schema.custom import CustomType
from pykcp.machinery.schema.decode import decoder_for
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import (
    MAX_FIELD_ERRORS,
    FieldError,
    Invalid,
    StatusError,
    go_quote,
    invalid,
)
from pykcp.registry.context import RequestContext
from pykcp.registry.verbs.create import dedup_owners
from pykcp.types import Object

MANY = 60_000
TEXT = Schema(type="string", go_type="string")
NUMBER = Schema(type="integer", format="int64", go_type="int64")
META = Schema(type="object", go_type="v1.ObjectMeta", properties={"name": TEXT})


def context() -> RequestContext:
    return RequestContext("root", User("alice"))


def custom(**properties: Schema) -> CustomType:
    return CustomType(Schema(type="object", properties={"spec": _object(**properties)}), META)


def _object(**properties: Schema) -> Schema:
    return Schema(type="object", properties=properties)


# -- metadata


def owner(number: int) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": str(number)}


def test_equal_owners_are_found_among_many() -> None:
    metadata: Object = {"ownerReferences": [owner(i % (MANY - 1)) for i in range(MANY)]}
    ctx = context()
    dedup_owners(ctx, metadata)
    assert len(metadata["ownerReferences"]) == MANY - 1
    (warning,) = ctx.warnings
    assert warning.endswith("duplicate UID(s) observed: 0")


def test_many_controllers_are_told_once_with_all_owners() -> None:
    owners = [{**owner(i), "controller": True} for i in range(MANY)]
    metadata = {"name": "a", "ownerReferences": owners}
    errors = validate_object_meta(metadata, False, name_is_subdomain)
    status = Invalid.fields("", "ConfigMap", "a", errors).to_json()
    assert len(status["details"]["causes"]) == 1
    assert status["message"].endswith(", too many errors]")


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {f"-{i}": "" for i in range(MANY)}},
        {"labels": {f"a{i}": "-" for i in range(MANY)}},
        {"annotations": {f"-{i}": "" for i in range(MANY)}},
        {"finalizers": [f"-{i}" for i in range(MANY)]},
        {"ownerReferences": [{}] * MANY},
        {"managedFields": [{"operation": "x"}] * MANY},
        {"managedFields": [{"operation": "Apply", "manager": "\0" * MANY}]},
    ],
)
def test_not_all_errors_are_told(metadata: Object) -> None:
    errors = validate_object_meta({"name": "a", **metadata}, False, name_is_subdomain)
    status = Invalid.fields("", "ConfigMap", "a", errors).to_json()
    assert len(status["details"]["causes"]) <= MAX_FIELD_ERRORS
    assert status["message"].endswith(", too many errors]")
    assert len(orjson.dumps(status)) < 4_000_000


def test_errors_are_told_up_to_a_size() -> None:
    errors = [invalid("a", "x" * 600_000, str(i)) for i in range(4)]
    status = Invalid.fields("", "ConfigMap", "a", errors).to_json()
    assert [c["message"][-3:] for c in status["details"]["causes"]] == [": 0", ": 1"]
    assert status["message"].endswith(": 1, too many errors]")


# -- warnings


def test_few_warnings_are_told_as_they_are() -> None:
    ctx = context()
    for text in ("a" * 2000, "b" * 2000, "a" * 2000, "", "c" * 96):
        ctx.warn(text)
    assert list(map(len, ctx.warnings)) == [2000, 2000, 96]


def test_many_warnings_are_cut_and_then_left_out() -> None:
    ctx = context()
    for number in range(MANY):
        ctx.warn(f"{number} " + "a" * 4000)
    assert list(map(len, ctx.warnings)) == [256] * 16
    assert [w.partition(" ")[0] for w in ctx.warnings] == [str(i) for i in range(16)]


# -- JSON texts


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" + b"0," * 1_500_000 + b"x]", "invalid character 'x' looking for beginning of value"),
        (b"[" + b'"",' * 1_000_000 + b"]", "invalid character ']' looking for beginning of value"),
        (b'{"a":{' + b'"a":[{"b":[]}],' * 200_000 + b"}}",
         "invalid character '}' looking for beginning of object key string"),
        (b'["' + b"\\n" * 1_500_000 + b"\\x", "invalid character 'x' in string escape code"),
        (b" " * 3_000_000, "unexpected end of JSON input"),
        (b"[" * 3_000_000, "exceeded max depth"),
        (b'{"":' * 700_000, "exceeded max depth"),
        (b"[" * 9_999 + b"0," * 1_000_000 + b"!", "invalid character '!' looking for beginning of value"),
    ],
)  # fmt: skip
def test_a_long_text_that_is_not_json(body: bytes, words: str) -> None:
    assert gojson.syntax_error(body) == words


def test_repeated_keys_are_told_up_to_a_number() -> None:
    body = b"{" + b",".join(b'"%d":0' % (i // 2) for i in range(2 * MANY)) + b"}"
    assert gojson.duplicate_fields(body) == [f'duplicate field "{i}"' for i in range(100)]


def test_below_a_long_key_paths_are_not_spelled_for_nothing() -> None:
    key, items = b"k" * 1_000_000, b",".join([b'{"a":1,"b":2}'] * MANY)
    body = b'{"%b":[%b,{"a":1,"a":2}]}' % (key, items)
    assert gojson.duplicate_fields(body) == [f'duplicate field "{key.decode()}[{MANY}].a"']


def test_a_repeated_struct_is_joined_piece_by_piece() -> None:
    inner = Schema(type="object", go_type="v1.Inner", properties={"a": NUMBER, "b": NUMBER})
    outer = Schema(
        type="object",
        go_type="v1.Outer",
        properties={
            "inner": inner,
            "list": Schema(type="array", items=inner, go_type="[]v1.Inner"),
        },
    )
    for text in (b'"inner":{"a":1}', b'"list":[{"a":1}]'):
        raw = b"{" + b",".join([text] * MANY) + b"}"
        problems: list[str] = []
        out = decoder_for(outer).decode(orjson.loads(raw), problems, raw)
        assert problems[0].startswith("duplicate field ")
        assert out.get("inner", {}).get("a") or out["list"][0]["a"] == 1


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("\x00\x7f\x1b\n\t", '"\\x00\\x7f\\x1b\\n\\t"'),
        ("é\u200b日\U000e0001", '"é\\u200b日\\U000e0001"'),
    ],
)
def test_quoting(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted


# -- custom resources


@pytest.mark.parametrize("count", [1, MANY * 2])
def test_unknown_fields_are_dropped_and_told_up_to_a_number(count: int) -> None:
    value: Object = {"spec": {"a": 1, **{f"x{i:06d}": 1 for i in range(count)}}}
    problems: list[str] = []
    assert custom(a=NUMBER).decode(value, problems) == {"spec": {"a": 1}}
    assert problems == [f'unknown field "spec.x{i:06d}"' for i in range(min(count, 100))]


def test_unknown_fields_below_a_long_key() -> None:
    maps = Schema(type="object", additional=Schema(type="array", items=_object(a=NUMBER)))
    key = "k" * 1_000_000
    value: Object = {"spec": {"m": {key: [{"a": 1} for _ in range(MANY)] + [{"x": 1}]}}}
    problems: list[str] = []
    custom(m=maps).decode(value, problems)
    assert problems == [f'unknown field "spec.m.{key}[{MANY}].x"']


def test_nulls_get_their_defaults() -> None:
    names = [f"f{i}" for i in range(MANY)]
    fields = {n: Schema(type="integer", default=1, has_default=True) for n in names}
    value: Object = {"spec": dict.fromkeys(names)}
    assert custom(**fields).decode(value, []) == {"spec": dict.fromkeys(names, 1)}


def test_unique_items() -> None:
    unique = custom(u=Schema(type="array", items=Schema(preserve_unknown=True), unique_items=True))
    values: list[Any] = [*range(MANY), *({"a": [i]} for i in range(MANY))]
    assert unique.errors({"spec": {"u": values}}) == []
    (error,) = unique.errors({"spec": {"u": [*values, {"a": [7]}]}})
    assert error.text() == 'spec.u: Invalid value: "": spec.u in body shouldn\'t contain duplicates'


def test_type_errors_are_told_up_to_a_number() -> None:
    kind = custom(l=Schema(type="array", items=NUMBER))
    errors = kind.errors({"spec": {"l": ["x"] * MANY}})
    assert MAX_FIELD_ERRORS < len(errors) < 2 * MAX_FIELD_ERRORS
    assert errors[1].path == "spec.l[1]"


def test_a_violation_below_a_long_key() -> None:
    maps = Schema(type="object", additional=Schema(type="array", items=NUMBER))
    key = "k" * 1_000_000
    (error,) = custom(m=maps).errors({"spec": {"m": {key: [*range(MANY), "x"]}}})
    assert error.path == f"spec.m.{key}[{MANY}]"


KEYED = Schema(
    type="array", list_type="map", list_keys=("name",), items=_object(name=TEXT, v=NUMBER)
)


def test_old_violations_of_many_list_items_are_excused() -> None:
    kind = custom(l=KEYED)
    old = [{"name": str(i), "v": "wrong"} for i in range(MANY)]
    new = [*reversed(old), {"name": "new", "v": 1}]
    assert kind.errors({"spec": {"l": new}}, {"spec": {"l": old}}) == []


def test_repeated_list_items_are_told_up_to_a_number() -> None:
    items = [{"name": str(i // 2)} for i in range(2 * MANY)]
    errors = custom(l=KEYED).errors({"spec": {"l": items}})
    assert MAX_FIELD_ERRORS < len(errors) < 2 * MAX_FIELD_ERRORS
    assert errors[0].text() == 'spec.l[1]: Duplicate value: {"name":"0"}'


# -- patches


ITEM = Schema(
    type="object", go_type="v1.Item", ref="v1.Item", properties={"name": TEXT, "value": NUMBER}
)
KIND = Schema(
    type="object",
    go_type="v1.Kind",
    ref="v1.Kind",
    properties={
        "items": Schema(
            type="array",
            go_type="[]v1.Item",
            items=ITEM,
            patch_strategy="merge",
            patch_merge_key="name",
        ),
        "texts": Schema(type="array", go_type="[]string", items=TEXT, patch_strategy="merge"),
    },
)
NAMED = [{"name": str(i)} for i in range(MANY)]


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"items": NAMED}, NAMED),
        ({"$setElementOrder/items": NAMED[::-1]}, NAMED[::-1]),
        ({"$setElementOrder/items": NAMED[::-1], "items": NAMED[::-1]}, NAMED[::-1]),
        ({"items": [{"name": n["name"], "$patch": "delete"} for n in NAMED]}, []),
        ({"items": [{"name": f"x{i}"} for i in range(MANY)]},
         [*({"name": f"x{i}"} for i in range(MANY)), *NAMED]),
    ],
)  # fmt: skip
def test_strategic_merge_of_long_lists(patch: Object, expected: list[Any]) -> None:
    out = strategic.apply(KIND, {"items": NAMED}, patch)["items"]
    assert len(out) == len(expected)
    assert {i["name"] for i in out} == {i["name"] for i in expected}
    if "$setElementOrder/items" in patch:
        assert out == expected


def test_strategic_merge_of_many_scalars() -> None:
    texts = [str(i) for i in range(MANY)]
    document: Object = {"texts": texts}
    assert strategic.apply(KIND, document, {"texts": texts})["texts"] == texts
    ordered = {"$setElementOrder/texts": texts[::-1]}
    assert strategic.apply(KIND, document, ordered)["texts"] == texts[::-1]
    less = {"$deleteFromPrimitiveList/texts": texts[1:]}
    assert strategic.apply(KIND, document, less)["texts"] == texts[:1]


def test_json_patch_moves_so_many_items() -> None:
    document = {"list": list(range(1_000_000))}
    operations = [{"op": "add", "path": "/list/0", "value": 1}] * 10_000
    with pytest.raises(StatusError) as refused:
        jsonpatch.apply(document, operations)
    assert refused.value.code == 422
    appended = jsonpatch.apply(document, [{"op": "add", "path": "/list/-", "value": 1}] * 10_000)
    assert len(appended["list"]) == 1_010_000


def test_patches_share_a_budget() -> None:
    budget = jsonpatch.Budget(copied=100)
    copy = [{"op": "copy", "from": "/a", "path": "/b"}]
    jsonpatch.apply({"a": "x" * 50}, copy, budget)
    with pytest.raises(StatusError):
        jsonpatch.apply({"a": "x" * 50}, copy, budget)


def test_unknown_members_of_a_json_patch_are_told_up_to_a_number() -> None:
    unknown = b",".join(b'"x%d":{"a":1,"a":2}' % i for i in range(MANY))
    body = b'[{"op":"test","op":"test","path":"/a",%b}]' % unknown
    _, problems = jsonpatch.decode(body, strict=True)
    assert problems[:2] == [
        'json patch duplicate field "[0].op"',
        'json patch unknown field "[0].x0"',
    ]
    assert len(problems) == 100


def test_a_failed_move_changes_nothing() -> None:
    run = jsonpatch.PatchRun({"a": [1, 2, 3]})
    with pytest.raises(StatusError):
        run.step({"op": "move", "from": "/a/1", "path": "/b/c"})
    assert run.root == {"a": [1, 2, 3]}


def test_depth_is_refused_in_words() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert gojson.shown(deep) == "..."
    with pytest.raises(gojson.BadJSON, match="exceeded max depth"):
        gojson.decode(b"[" * 5_000 + b"]" * 5_000)
    with pytest.raises(diagnose.DecodeError, match="exceeded max depth"):
        diagnose.refuse_depth(deep)


# -- server-side apply


def manager(schema: Schema) -> FieldManager:
    return FieldManager(schema, "ex.io/v1", "Test")


def applied(spec: Any) -> Object:
    return {"apiVersion": "ex.io/v1", "kind": "Test", "metadata": {"name": "a"}, "spec": spec}


FREE = Schema(
    type="object",
    properties={
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": Schema(type="object", preserve_unknown=True),
        "spec": Schema(type="object", preserve_unknown=True),
    },
)
NOW = "2026-01-01T00:00:00Z"


def nested(depth: int, inside: Any) -> Any:
    for _ in range(depth):
        inside = {"a": inside}
    return inside


def test_what_is_deep_down_is_not_compared_at_every_level() -> None:
    fields = manager(FREE)
    many = {str(i): i for i in range(MANY)}
    live = fields.on_apply(None, applied(nested(200, {**many, "z": 1})), "one", NOW)
    after = fields.on_apply(live, applied(nested(200, {**many, "z": 2})), "one", NOW)
    assert after["spec"] == nested(200, {**many, "z": 2})


def test_equality_of_deep_values() -> None:
    assert same(nested(200, [1, "a"]), nested(200, [1.0, "a"]))
    assert not same(nested(200, [1, "a"]), nested(200, [True, "a"]))
    assert not same(nested(200, [1, "a"]), nested(200, [1, "b"]))


def test_conflicts_are_counted_and_told_up_to_a_number() -> None:
    fields = manager(FREE)
    live = fields.on_apply(None, applied({f"k{i:06d}": 1 for i in range(MANY)}), "one", NOW)
    with pytest.raises(StatusError) as refused:
        fields.on_apply(live, applied({f"k{i:06d}": 2 for i in range(MANY)}), "two", NOW)
    status = refused.value.to_json()
    assert len(status["details"]["causes"]) == MAX_FIELD_ERRORS
    lines = status["message"].split("\n")
    assert lines[0] == f'Apply failed with {MANY} conflicts: conflicts with "one":'
    assert lines[1:3] == ["- .spec.k000000", "- .spec.k000001"]
    assert lines[-1] == "- ..."


def test_many_updaters_become_one() -> None:
    sets: managed.Managers = {
        managed.identify(f"m{i:06d}", "Update", "v1", ""): managed.ManagedEntry(
            {"f:data": {f"f:{i}": {}}}, "v1", NOW
        )
        for i in range(MANY)
    }
    capped = managed.cap_updaters(sets)
    assert len(capped) == managed.MAX_UPDATE_MANAGERS
    bucket = capped[managed.identify(managed.ANCIENT, "Update", "v1", "")]
    assert len(bucket.fields["f:data"]) == MANY - managed.MAX_UPDATE_MANAGERS + 1


def test_union_of_many_sets() -> None:
    sets: list[Any] = [{"f:a": {}}, {"f:a": {"f:c": {}}}, {}, {"f:b": {}, "f:a": {"f:b": {}}}]
    assert union_all(sets) == {"f:a": {".": {}, "f:b": {}, "f:c": {}}, "f:b": {}}
    assert list(union_all(sets)["f:a"]) == [".", "f:b", "f:c"]


def test_a_configuration_of_wrong_types_is_told_up_to_a_size() -> None:
    schema = Schema(
        type="object",
        properties={
            **FREE.properties,
            "spec": Schema(
                type="object", additional=Schema(type="array", items=Schema(type="integer"))
            ),
        },
    )
    with pytest.raises(StatusError) as refused:
        manager(schema).on_apply(None, applied({"k" * 1_000_000: ["x"] * MANY}), "one", NOW)
    assert len(str(refused.value)) < 3_000_000


# -- defaults


def test_defaults_add_no_more_than_an_object_can_hold() -> None:
    item = _object(text=Schema(type="string", default="x" * 1000, has_default=True))
    kind = custom(l=Schema(type="array", items=item))
    few = kind.decode({"spec": {"l": [{}, {}]}}, [])
    assert [len(i["text"]) for i in few["spec"]["l"]] == [1000, 1000]
    for rest in ({}, {"n": None}):
        with pytest.raises(StatusError) as refused:
            kind.decode({"spec": {"l": [{} for _ in range(MANY)], **rest}}, [])
        assert refused.value.code == 413


# -- kinds of Kubernetes


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" * 3_000_000, "exceeded max depth"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, None),
        (b"[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (b'{"a"', "unexpected end of JSON input"),
    ],
)
def test_texts_in_secrets(body: bytes, words: str | None) -> None:
    assert object_error(body) == words


def test_repeated_versions_of_reviews_and_names_of_resources() -> None:
    names = [f"a{i}" for i in range(MANY)]
    versions = {"admissionReviewVersions": ["v1", *names, "a7"]}
    hook = {"name": "a.b.c", "sideEffects": "None", "clientConfig": {"url": "https://a"}}
    errors = _errors(VALIDATING_WEBHOOKS, {"webhooks": [{**hook, **versions}]})
    assert [e.message for e in errors] == ["duplicate version"]
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    rules = {"resourceRules": [{**rule, "resourceNames": [*names, "a7"]}]}
    spec = {"matchConstraints": rules, "validations": [{"expression": "true"}]}
    (error,) = _errors(VALIDATING_POLICIES, {"spec": spec})
    assert error.reason == "FieldValueDuplicate"


VALIDATING_WEBHOOKS = "validatingwebhookconfigurations"
VALIDATING_POLICIES = "validatingadmissionpolicies"


def _errors(resource: str, obj: Object) -> list[FieldError]:
    rules = strategy_for("admissionregistration.k8s.io", resource)
    obj = {"metadata": {"name": "a"}, **obj}
    rules.default(obj)
    return rules.validate(obj, NO_FACTS)


def test_schemas_below_a_long_name() -> None:
    name = "k" * 1_500_000
    good = {f"p{i}": {"type": "string"} for i in range(MANY)}
    schema: Object = {
        "type": "object",
        "properties": {name: {"type": "object", "properties": good}},
    }
    assert structural_errors(schema, "schema") == []
    assert schema_errors(schema, "schema", SchemaStrictness()) == []
    bad = {f"p{i}": {"uniqueItems": True} for i in range(MANY)}
    schema["properties"][name]["properties"] = bad
    for errors in (structural_errors(schema, "s"), schema_errors(schema, "s", SchemaStrictness())):
        assert 0 < len(errors) < 10
        assert errors[0].path.startswith(f"s.properties[{name}].properties[p0].")


def test_paths_of_many_rules() -> None:
    rules = [{"rule": "true", "fieldPath": ".a"} for _ in range(3_000)]
    fields = {f"p{i}": {"type": "string"} for i in range(30_000)}
    schema: Object = {"type": "object", "properties": {"a": {"type": "string"}, **fields}}
    schema["x-kubernetes-validations"] = rules
    assert schema_errors(schema, "schema", SchemaStrictness()) == []
