"""Bodies: what is wrong with them, in kube-apiserver's words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykcp.machinery.status import BadRequest, Invalid, StatusError
from pykcp.registry.resource import Resource
from pykcp.server.call import Call
from pykcp.server.media import bodies
from pykcp.types import Object

MakeCall = Callable[..., Call]
CM = "/api/v1/namespaces/default/configmaps"
EXPORTS = "/apis/apis.kcp.io/v1alpha1/apiexports"
UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
STRUCT = (
    'into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


def read(call: Call, resource: Resource) -> Object:
    return bodies.read_sent(bodies.sent_of(call), resource, call.context.warn)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", UNRECOGNIZED + "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
        (b"{", UNRECOGNIZED + "couldn't get version/kind; json parse error: unexpected end of JSON input ({)"),
        (
            b"hello",
            UNRECOGNIZED + "couldn't get version/kind; json parse error: invalid character 'h' looking for "
            "beginning of value (68656c6c6f)",
        ),
        (b"[]", UNRECOGNIZED + f"couldn't get version/kind; json parse error: json: cannot unmarshal array {STRUCT} (5b5d)"),
        (b"7", UNRECOGNIZED + f"couldn't get version/kind; json parse error: json: cannot unmarshal number {STRUCT} (37)"),
        (
            b'{"kind":"Secret"}',
            ('Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        ),
        (
            b'{"kind":"Deployment","apiVersion":"apps/v1"}',
            ('Deployment in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Deployment) to (core.ConfigMap): unknown conversion"),
        ),
        (
            b'{"kind":"Deployment"}',
            ('Deployment in version "v1" cannot be handled as a ConfigMap: no kind "Deployment" is registered for '
            'version "v1" in scheme "pkg/runtime/scheme.go:111"'),
        ),
        (b'{"apiVersion":"a/b/c"}', UNRECOGNIZED + 'unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c"})'),
        (
            b'{"data":{"a":1}}',
            ('ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct '
            "field ConfigMap.data of type string"),
        ),
    ],
)  # fmt: skip
def test_refusals(make_call: MakeCall, body: bytes, message: str) -> None:
    """Syntax, type, kind: each has its own text."""
    call = make_call("POST", CM, body)
    with pytest.raises(BadRequest) as caught:
        read(call, call.resource)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "the object provided is unrecognized (must be of type APIExport): Object 'Kind' is missing in '{}' ({})"),
        (
            b'{"kind":"APIExport","apiVersion":"v1"}',
            "the API version in the data (v1) does not match the expected API version (apis.kcp.io/v1alpha1)",
        ),
        (
            b'{"kind":"Other","apiVersion":"apis.kcp.io/v1alpha1","metadata":{"name":"x"}}',
            'Other.apis.kcp.io "x" is invalid: kind: Invalid value: "Other": must be APIExport',
        ),
    ],
)  # fmt: skip
def test_custom_objects_must_say_what_they_are(
    make_call: MakeCall, body: bytes, message: str
) -> None:
    """Custom resources have to name their kind and version."""
    call = make_call("POST", EXPORTS, body)
    with pytest.raises(StatusError) as caught:
        read(call, call.resource)
    assert caught.value.message == message


def test_unknown_media_types_are_415(make_call: MakeCall) -> None:
    """The answer lists what is understood: three forms for native kinds, two for custom ones."""
    native = make_call("POST", CM, b"x", {"Content-Type": "text/plain"})
    with pytest.raises(StatusError) as caught:
        read(native, native.resource)
    assert caught.value.code == 415
    assert caught.value.message.endswith(
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )
    custom = make_call(
        "POST", EXPORTS, b"x", {"Content-Type": "application/vnd.kubernetes.protobuf"}
    )
    with pytest.raises(StatusError) as caught:
        read(custom, custom.resource)
    assert caught.value.message.endswith("application/json, application/yaml")


def test_large_bodies_are_413(make_call: MakeCall) -> None:
    """Beyond three MiB, and when the wire threw the rest away."""
    call = make_call("POST", CM, b" " * (bodies.LIMIT + 1))
    with pytest.raises(StatusError) as caught:
        bodies.body_of(call)
    assert (caught.value.code, caught.value.message) == (
        413,
        "Request entity too large: limit is 3145728",
    )


@pytest.mark.parametrize("mode", ["Ignore", "Warn", "Strict"])
def test_unknown_and_repeated_fields(make_call: MakeCall, mode: str) -> None:
    """Ignored, told in warnings, or refused, as fieldValidation says."""
    body = b'{"metadata":{"name":"a"},"nosuch":1,"data":{"x":"1","x":"2"}}'
    call = make_call("POST", f"{CM}?fieldValidation={mode}", body)
    problems = ['duplicate field "data.x"', 'unknown field "nosuch"']
    if mode == "Strict":
        with pytest.raises(BadRequest) as caught:
            read(call, call.resource)
        assert "strict decoding error: " in caught.value.message
        assert all(problem in caught.value.message for problem in problems)
        return
    obj = read(call, call.resource)
    assert obj["data"] == {"x": "2"}
    assert "nosuch" not in obj
    assert sorted(call.context.warnings) == ([] if mode == "Ignore" else problems)


def test_repeated_fields_in_yaml_are_named_with_their_line(make_call: MakeCall) -> None:
    """Strict decoding of YAML gives Go's unmarshal errors."""
    body = b"metadata: {name: a}\ndata:\n  x: '1'\n  x: '2'\n"
    headers = {"Content-Type": "application/yaml"}
    call = make_call("POST", f"{CM}?fieldValidation=Strict", body, headers)
    with pytest.raises(BadRequest) as caught:
        read(call, call.resource)
    assert 'yaml: unmarshal errors:\n  line 4: key "x" already set in map' in caught.value.message


def test_summary() -> None:
    """Errors quote the beginning of a body: as text if it looks like JSON, otherwise in hex."""
    assert bodies.summary(b"") == "<empty>"
    assert bodies.summary(b"{" + b"a" * 40) == "{" + "a" * 29 + " ..."
    assert bodies.summary(b"\x00\xff") == "00ff"


def test_garbage_in_protobuf_is_unrecognized(make_call: MakeCall) -> None:
    """A body that is no protobuf is the client's mistake."""
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    call = make_call("POST", CM, b"{}", headers)
    with pytest.raises(BadRequest, match="does not appear to be a protobuf message"):
        read(call, call.resource)


def test_an_empty_list_of_managers_is_a_reset(make_call: MakeCall) -> None:
    """managedFields: [] asks to forget them, which decoding must not lose."""
    assert bodies.mark_reset({"metadata": {"managedFields": []}}) == {
        "metadata": {"managedFields": [{}]}
    }


def test_invalid_is_raised_under_the_objects_own_name(make_call: MakeCall) -> None:
    """A patched custom object that changed its kind is Invalid."""
    call = make_call("PATCH", f"{EXPORTS}/x")
    obj = {"kind": "Other", "apiVersion": "apis.kcp.io/v1alpha1", "metadata": {"name": "x"}}
    with pytest.raises(Invalid):
        bodies.check_custom_kind(obj, call.resource)


def test_deep_json_sent_as_yaml_counts_as_yaml() -> None:
    """However deep it is, looking at it neither fails nor reads it."""
    deep = b'{"a":' * 100_000
    assert bodies.Sent(deep, "application/yaml").weight == 8 * len(deep)
