"""Typed decoding. Expected texts were read off Kubernetes' own decoder."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from pykcp.apis.catalog import definition_of
from pykcp.machinery.schema.decode import DecodeError, decoder_for
from pykcp.machinery.schema.diagnose import duplicate_fields, kind_error

RBAC = "rbac.authorization.k8s.io"
GO = "json: cannot unmarshal"
CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")


def decode(group: str, plural: str, body: str) -> tuple[dict[str, Any], list[str]]:
    problems: list[str] = []
    decoder = decoder_for(definition_of(group, plural).schema("v1"))
    return decoder.decode(orjson.loads(body), problems, body.encode()), problems


@pytest.mark.parametrize(
    ("group", "plural", "body", "decoded"),
    [
        ("", "namespaces", "{}", {"metadata": {}, "spec": {}, "status": {}}),
        (
            "",
            "configmaps",
            '{"data":{},"binaryData":null,"immutable":false,"metadata":{"name":"","labels":{}}}',
            {"metadata": {}, "immutable": False},
        ),
        (
            "",
            "configmaps",
            '{"metadata":{"labels":{"b":"1","a":null}}}',
            {"metadata": {"labels": {"a": "", "b": "1"}}},
        ),
        (
            "",
            "secrets",
            '{"data":{"a":null,"b":"YR=="}}',
            {"metadata": {}, "data": {"a": "", "b": "YQ=="}},
        ),
        ("", "secrets", '{"data":{"a":[104,105]}}', {"metadata": {}, "data": {"a": "aGk="}}),
        (RBAC, "roles", '{"rules":[]}', {"metadata": {}, "rules": []}),
        (
            RBAC,
            "roles",
            '{"rules":[{"verbs":["get"],"apiGroups":[]},null]}',
            {"metadata": {}, "rules": [{"verbs": ["get"]}, {"verbs": None}]},
        ),
        (
            "",
            "resourcequotas",
            '{"spec":{"hard":{"cpu":1,"mem":"1024Ki","x":"1.5","z":null,"big":99999999999999999999}}}',
            {
                "metadata": {},
                "spec": {
                    "hard": {
                        "big": "99999999999999999999",
                        "cpu": "1",
                        "mem": "1Mi",
                        "x": "1500m",
                        "z": "0",
                    }
                },
                "status": {},
            },
        ),
        (
            "coordination.k8s.io",
            "leases",
            (
                '{"metadata":{"creationTimestamp":"2020-01-01T02:00:00.5+02:00"},'
                '"spec":{"renewTime":"2020-01-01T00:00:00.123456+05:30","leaseTransitions":0}}'
            ),
            {
                "metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"},
                "spec": {"renewTime": "2019-12-31T18:30:00.123456Z", "leaseTransitions": 0},
            },
        ),
        (
            "",
            "events",
            "{}",
            {
                "metadata": {},
                "involvedObject": {},
                "source": {},
                "firstTimestamp": None,
                "lastTimestamp": None,
                "eventTime": None,
                "reportingComponent": "",
                "reportingInstance": "",
            },
        ),
        (
            *CRDS,
            (
                '{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":'
                '{"openAPIV3Schema":{"maximum":1.0,"items":{"type":"string","nope":1},'
                '"additionalProperties":false,"default":{"a":null}}}}]}}'
            ),
            {
                "metadata": {},
                "spec": {
                    "group": "",
                    "names": {"plural": "", "kind": ""},
                    "scope": "",
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {
                                "openAPIV3Schema": {
                                    "default": {"a": None},
                                    "maximum": 1,
                                    "items": {"type": "string"},
                                    "additionalProperties": False,
                                }
                            },
                        }
                    ],
                },
                "status": {
                    "conditions": None,
                    "acceptedNames": {"plural": "", "kind": ""},
                    "storedVersions": None,
                },
            },
        ),
    ],
)
def test_what_comes_out_is_what_gos_structs_write(
    group: str, plural: str, body: str, decoded: dict[str, Any]
) -> None:
    out, problems = decode(group, plural, body)
    assert out == decoded
    assert problems == []


def test_fields_come_out_in_gos_order_and_maps_sorted() -> None:
    body = (
        '{"data":{"b":"1","a":"2"},"metadata":{"namespace":"n","name":"x"},'
        '"apiVersion":"v1","kind":"ConfigMap"}'
    )
    out, _ = decode("", "configmaps", body)
    assert orjson.dumps(out) == (
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"n"},'
        b'"data":{"a":"2","b":"1"}}'
    )


@pytest.mark.parametrize(
    ("group", "plural", "body", "message"),
    [
        (
            "",
            "configmaps",
            '{"metadata":{"name":5},"data":{"a":2}}',
            f"{GO} number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            "",
            "configmaps",
            '{"data":{"a":2}}',
            f"{GO} number into Go struct field ConfigMap.data of type string",
        ),
        (
            "",
            "configmaps",
            '{"metadata":[]}',
            f"{GO} array into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            "",
            "configmaps",
            '{"kind":{}}',
            f"{GO} object into Go struct field ConfigMap.TypeMeta.kind of type string",
        ),
        (
            "",
            "configmaps",
            '{"metadata":{"name":5,"creationTimestamp":5}}',
            (
                f"{GO} number into Go struct field "
                "ObjectMeta.metadata.creationTimestamp of type string"
            ),
        ),
        (
            "",
            "configmaps",
            '{"binaryData":{"a":"!!"}}',
            "illegal base64 data at input byte 0",
        ),
        (
            "",
            "configmaps",
            '{"binaryData":{"a":["x"]}}',
            f"{GO} string into Go struct field ConfigMap.binaryData of type uint8",
        ),
        (
            "",
            "secrets",
            '{"type":true}',
            f"{GO} bool into Go struct field Secret.type of type v1.SecretType",
        ),
        (
            "",
            "events",
            '{"count":1.50}',
            f"{GO} number 1.50 into Go struct field Event.count of type int32",
        ),
        (
            "",
            "events",
            '{"count":3000000000}',
            f"{GO} number 3000000000 into Go struct field Event.count of type int32",
        ),
        (
            "",
            "resourcequotas",
            '{"spec":{"hard":[]}}',
            (
                f"{GO} array into Go struct field "
                "ResourceQuotaSpec.spec.hard of type v1.ResourceList"
            ),
        ),
        (
            "",
            "resourcequotas",
            '{"spec":{"hard":{"cpu":true}}}',
            (
                "quantities must match the regular expression "
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ),
        ),
        (
            RBAC,
            "rolebindings",
            '{"subjects":{"kind":"User"}}',
            f"{GO} object into Go struct field RoleBinding.subjects of type []v1.Subject",
        ),
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicies",
            '{"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":5}]}}}',
            (
                f"{GO} number into Go struct field NamedRuleWithOperations."
                "spec.matchConstraints.resourceRules.RuleWithOperations.Rule.apiGroups "
                "of type []string"
            ),
        ),
        (
            *CRDS,
            '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"additionalProperties":5}}}]}}',
            "boolean or JSON schema expected",
        ),
        (
            *CRDS,
            '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"type":5}}}}]}}',
            (
                f"{GO} number into Go struct field "
                "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.type of type string"
            ),
        ),
    ],
)
def test_wrong_types_are_refused_in_gos_words(
    group: str, plural: str, body: str, message: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(group, plural, body)
    assert str(caught.value) == message


_LAYOUT = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", f'parsing time "x" as "{_LAYOUT}": cannot parse "x" as "2006"'),
        ("2020-01-01", f'parsing time "2020-01-01" as "{_LAYOUT}": cannot parse "" as "T"'),
        ("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range'),
        ("2020-02-30T00:00:00Z", 'parsing time "2020-02-30T00:00:00Z": day out of range'),
        ("2020-01-01T25:00:00Z", 'parsing time "2020-01-01T25:00:00Z": hour out of range'),
        (
            "2020-01-01T00:00:00+2:00",
            (
                f'parsing time "2020-01-01T00:00:00+2:00" as "{_LAYOUT}": '
                'cannot parse "+2:00" as "Z07:00"'
            ),
        ),
        ("2020-01-01T00:00:00Zx", 'parsing time "2020-01-01T00:00:00Zx": extra text: "x"'),
    ],
)
def test_bad_times(text: str, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode("", "configmaps", f'{{"metadata":{{"creationTimestamp":"{text}"}}}}')
    assert str(caught.value) == message


def test_unknown_and_duplicate_fields_in_the_order_of_the_text() -> None:
    body = (
        '{"metadata":{"foo":1,"labels":{"a":"1","a":"2"}},"data":{"b":"1"},"Data":{},'
        '"data" : {"c":"d"},"foo":{"bar":1}}'
    )
    out, problems = decode("", "configmaps", body)
    assert problems == [
        'unknown field "metadata.foo"',
        'duplicate field "metadata.labels.a"',
        'unknown field "Data"',
        'duplicate field "data"',
        'unknown field "foo"',
    ]
    assert out == {"metadata": {"labels": {"a": "2"}}, "data": {"b": "1", "c": "d"}}


def test_problems_in_lists_name_the_index() -> None:
    _, problems = decode(RBAC, "roles", '{"rules":[{"verbs":[]},{"verb":[]}]}')
    assert problems == ['unknown field "rules[1].verb"']


def test_a_wrong_value_that_was_overwritten_still_counts() -> None:
    with pytest.raises(DecodeError, match="cannot unmarshal number"):
        decode("", "configmaps", '{"immutable":1,"immutable":true}')


@pytest.mark.parametrize(
    "body",
    [
        '{"data":{"a":"x: y \\": z"}}',
        '{ "data" : { "a" : "1" , "b" : "2" } }',
        '{"data":{"a":"\\u003a"}}',
    ],
)
def test_texts_that_look_odd_but_repeat_nothing(body: str) -> None:
    _, problems = decode("", "configmaps", body)
    assert problems == []


def test_repeated_keys_of_untyped_texts() -> None:
    assert duplicate_fields(b'{"a":{"b":1,"b":2},"c":[{"d":1,"d":2}],"a":3}') == [
        'duplicate field "a.b"',
        'duplicate field "c[0].d"',
        'duplicate field "a"',
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"kind": 5}, f"{GO} number into Go struct field .kind of type string"),
        (
            {"apiVersion": []},
            f"{GO} array into Go struct field .apiVersion of type string",
        ),
        (
            [],
            (
                f"{GO} array into Go value of type struct {{ APIVersion string "
                '"json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
            ),
        ),
    ],
)
def test_bodies_whose_kind_cannot_be_told(value: Any, message: str) -> None:
    assert kind_error(value) == f"couldn't get version/kind; json parse error: {message}"


def test_bodies_whose_kind_can_be_told() -> None:
    assert kind_error({"kind": "ConfigMap", "apiVersion": None}) is None
    assert kind_error(None) is None


@pytest.mark.parametrize("depth", [100, 500])
def test_unknown_fields_are_dropped_however_deep_they_are(depth: int) -> None:
    body = '{"nope":' + '{"a":' * depth + "1" + "}" * depth + "}"
    assert decode("", "configmaps", body) == ({"metadata": {}}, ['unknown field "nope"'])


def test_what_is_nested_too_deeply_to_be_stored_is_refused() -> None:
    def body(depth: int) -> str:
        schema = '{"properties":{"a":' * depth + "{}" + "}}" * depth
        return '{"spec":{"versions":[{"schema":{"openAPIV3Schema":' + schema + "}}]}}"

    out, problems = decode(*CRDS, body(100))
    assert problems == []
    assert out["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]
    with pytest.raises(DecodeError, match="exceeded max depth"):
        decode(*CRDS, body(300))
