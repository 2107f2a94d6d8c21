"""The small parts: rate limits, settings, the date."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from pykcp.wire import settings as settings_module
from pykcp.wire.http2.hpack import HeaderEncoder
from pykcp.wire.rate import Bucket
from pykcp.wire.serving import DateStamp
from pykcp.wire.settings import TLSSettings, WireSettings


def test_bucket_allows_a_burst_and_then_the_rate():
    """Three at once, then two a second, never more than three saved up."""
    bucket = Bucket(burst=3, rate=2)
    assert [bucket.take(10.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(10.5) for _ in range(2)] == [True, False]
    assert [bucket.take(99.0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take(100.0, cost=4)
    assert bucket.take(100.0, cost=2)


def test_default_settings_are_sound():
    """The defaults pass their own check."""
    assert [*WireSettings().problems()] == []


def test_all_problems_are_reported_at_once():
    """One sentence for each bad value."""
    bad = WireSettings(max_frame=100, connection_window=10, stream_window=2**31, max_body=0)
    assert [*bad.problems()] == [
        "max_body must be positive",
        "max_frame must be between 16384 and 16777215",
        "connection_window must be between 65535 and 2147483647",
        "stream_window must be at most 2147483647",
    ]


@pytest.mark.parametrize("kind", [WireSettings, TLSSettings])
def test_every_setting_is_documented(kind: type):
    """A field without a sentence below it is not finished."""
    source = pathlib.Path(settings_module.__file__).read_text()
    for field in dataclasses.fields(kind):
        after = source.split(f"    {field.name}:", 1)[1].split("\n", 1)[1]
        assert after.lstrip().startswith('"""'), field.name


def test_date_is_made_once_a_second():
    """Both protocols' octets follow the clock."""
    now = 784111777.9
    stamp = DateStamp(HeaderEncoder(), clock=lambda: now)
    assert stamp.http1() == b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
    assert stamp.http1() is stamp.http1()
    assert stamp.http2().endswith(b"Sun, 06 Nov 1994 08:49:37 GMT")
    now += 1
    assert stamp.http2().endswith(b"Sun, 06 Nov 1994 08:49:38 GMT")
