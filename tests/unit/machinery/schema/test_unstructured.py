"""Go's converter from maps to structs: what it does to numbers, and its words."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.apis.catalog import definition_of
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.schema.unstructured import Inconvertible, converted, word_error

LEASE = ("coordination.k8s.io", "leases")
MAP, SECRET, QUOTA = ("", "configmaps"), ("", "secrets"), ("", "resourcequotas")


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (5.0, 5), (1e1, 10), (-1, -1), (1 << 31, -(1 << 31)), ((1 << 32) + 1, 1), (-(1 << 32) + 1, 1),
        (1e300, 0), ((1 << 63) - 1, -1), (None, None),
    ],
)  # fmt: skip
def test_integers_are_cut_to_their_size(given: Any, stored: Any) -> None:
    schema = definition_of(*LEASE).schema("v1")
    found = converted(schema, {"spec": {"leaseDurationSeconds": given, "nosuch": 1.0}, "x": 1})
    assert found == {"spec": {"leaseDurationSeconds": stored, "nosuch": 1.0}, "x": 1}


@pytest.mark.parametrize(("given", "stored"), [(1e300, -(1 << 63)), (float(1 << 63), -(1 << 63))])
def test_long_integers(given: Any, stored: int) -> None:
    found = converted(definition_of(*MAP).schema("v1"), {"metadata": {"generation": given}})
    assert found == {"metadata": {"generation": stored}}


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (MAP, {"data": {"a": 1}}, "cannot convert int64 to string"),
        (MAP, {"data": {"a": 1.5}}, "unrecognized type: string"),
        (MAP, {"data": {"a": 1 << 63}}, "unrecognized type: string"),
        (MAP, {"data": {"a": True}}, "unrecognized type: string"),
        (MAP, {"data": {"a": []}}, "unrecognized type: string"),
        (MAP, {"data": 1}, "cannot restore map from int64"),
        (MAP, {"data": "x"}, "cannot restore map from string"),
        (MAP, {"immutable": 1}, "unrecognized type: bool"),
        (MAP, {"metadata": []}, "cannot restore struct from: slice"),
        (MAP, {"metadata": {"finalizers": {}}}, "cannot restore slice from map"),
        (MAP, {"metadata": {"finalizers": ["a", 1]}}, "cannot convert int64 to string"),
        (MAP, {"data": {"a": 1}, "metadata": {"labels": True}}, "cannot restore map from bool"),
        (LEASE, {"spec": {"leaseDurationSeconds": 1.5}}, "cannot convert float64 to int32"),
        (LEASE, {"spec": {"leaseDurationSeconds": "1"}}, "unrecognized type: int32"),
        (LEASE, {"spec": {"renewTime": 1}}, "json: cannot unmarshal number into Go value of type string"),
        (LEASE, {"spec": {"renewTime": 1e20}}, "json: cannot unmarshal number into Go value of type string"),
        (SECRET, {"data": {"a": "!"}}, "error decoding from json: illegal base64 data at input byte 0"),
        (SECRET, {"data": {"a": 1}}, "cannot restore slice from int64"),
        (SECRET, {"data": {"a": ["x"]}}, "unrecognized type: uint8"),
        (SECRET, {"type": 1}, "cannot convert int64 to v1.SecretType"),
        (QUOTA, {"spec": {"hard": {"pods": "x"}}},
         "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
    ],
)  # fmt: skip
def test_refusals(kind: tuple[str, str], value: Any, message: str) -> None:
    with pytest.raises(Inconvertible) as caught:
        converted(definition_of(*kind).schema("v1"), value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [(1.5, "number 1.5"), (True, "bool"), ([], "array"), ({}, "object")],
)
def test_what_is_neither_number_nor_text(value: Any, message: str) -> None:
    schema = Schema(type="object", properties={"port": Schema(codec="int-or-string")})
    assert converted(schema, {"port": 5.0}) == {"port": 5}
    assert converted(schema, {"port": "5%"}) == {"port": "5%"}
    with pytest.raises(Inconvertible) as caught:
        converted(schema, {"port": value})
    assert str(caught.value) == f"json: cannot unmarshal {message} into Go value of type int32"


def test_bytes_may_be_a_list() -> None:
    found = converted(definition_of(*SECRET).schema("v1"), {"data": {"a": [300, 1.0, None]}})
    assert found == {"data": {"a": [44, 1, None]}}


def test_words() -> None:
    assert [word_error(value) for value in (1, 1.0, {})] == [
        "cannot convert int64 to string", "unrecognized type: string", "unrecognized type: string",
    ]  # fmt: skip
