from __future__ import annotations

import pytest

from pykcp.machinery.schema.formats import FORMATS, format_check, known_format

GOOD = {
    "bson-object-id": ["507f1f77bcf86cd799439011"],
    "uri": ["http://a/b?c", "/path", "urn:x"],
    "email": ["a@b.c", "Someone <a@b.c>"],
    "hostname": ["localhost", "a.b.example", "x-1.org"],
    "ipv4": ["1.2.3.4", "001.2.3.4"],
    "ipv6": ["::1", "2001:db8::1", "::ffff:1.2.3.4"],
    "cidr": ["10.0.0.0/8", "::/0"],
    "mac": ["01:23:45:67:89:ab", "01-23-45-67-89-AB-cd-ef", "0123.4567.89ab"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
    "uuid4": ["123e4567-e89b-42d3-a456-426614174000"],
    "isbn": ["0321751043", "978-0321751041"],
    "creditcard": ["4111-1111-1111-1111"],
    "ssn": ["111-22-3333"],
    "hexcolor": ["#fff", "FFFFFF"],
    "rgbcolor": ["rgb(0, 128,255)"],
    "byte": ["aGk=", "aGVsbG8h"],
    "password": ["", "anything"],
    "date": ["2020-02-29"],
    "date-time": ["2020-01-01T00:00:00Z", "2020-01-01t00:00:00.5+02:00"],
    "duration": ["1h30m", "2 days", "22 ns"],
    "k8s-short-name": ["abc-1"],
    "k8s-long-name": ["a.b-c.d"],
}

BAD = {
    "uri": ["no uri", ""],
    "email": ["a", "@b"],
    "hostname": ["-a", "a..b", "a.1"],
    "ipv4": ["1.2.3", "1.2.3.256", "::1"],
    "ipv6": ["1.2.3.4", "fe80::1%eth0"],
    "cidr": ["10.0.0.0", "10.0.0.0/33", "::/129"],
    "mac": ["01:23:45:67:89", "01:23-45:67:89:ab"],
    "uuid": ["123e4567"],
    "uuid4": ["123e4567-e89b-12d3-a456-426614174000"],
    "isbn": ["0321751044"],
    "creditcard": ["4111-1111-1111-1112"],
    "ssn": ["111223333"],
    "hexcolor": ["#ff"],
    "rgbcolor": ["rgb(0,0,256)"],
    "byte": ["aGk", ""],
    "date": ["2021-02-29"],
    "date-time": ["2020-01-01", "2020-01-01T24:00:00Z", "2020-13-01T00:00:00Z"],
    "duration": ["soon"],
    "k8s-short-name": ["A", "-a", "a" * 64],
    "k8s-long-name": ["a..b", "a_b"],
}


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, ts in GOOD.items() for t in ts])
def test_good(name: str, text: str) -> None:
    assert format_check(name)(text)


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, ts in BAD.items() for t in ts])
def test_bad(name: str, text: str) -> None:
    assert not format_check(name)(text)


def test_only_known_formats_count_and_only_for_their_type() -> None:
    assert known_format("string", "date-time") == "date-time"
    assert known_format("", "uuid") == "uuid"
    assert known_format("string", "int32") == ""
    assert known_format("integer", "int32") == "int32"
    assert known_format("number", "float") == "float"
    assert known_format("boolean", "uuid") == ""
    assert known_format("string", "made-up") == ""
    assert "datetime" in FORMATS
