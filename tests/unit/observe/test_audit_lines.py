"""Audit events as lines: times, the legacy form, events without bodies, settings."""

from __future__ import annotations

import json

import pytest

from pykcp.observe.audit.lines import MicrosecondTimestamps, event_list, legacy, without_bodies
from pykcp.observe.audit.settings import (
    AuditSettings,
    BatchSettings,
    LogSettings,
    TruncateSettings,
    WebhookSettings,
)

EVENT = {
    "auditID": "1-2",
    "stage": "ResponseComplete",
    "verb": "list",
    "requestURI": "/api/v1/pods?limit=1",
    "user": {"username": "tim", "groups": ["a", 'b"c']},
    "sourceIPs": ["10.1.1.1", "10.2.2.2"],
    "userAgent": "kubectl",
    "objectRef": {"resource": "pods", "namespace": "ns"},
    "responseStatus": {"metadata": {}, "code": 200},
    "requestReceivedTimestamp": "2026-01-01T00:00:00.000001Z",
}


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z"),
        (1700000000.25, "2023-11-14T22:13:20.250000Z"),
        (1700000000.999999, "2023-11-14T22:13:20.999999Z"),
        (1700000001.0, "2023-11-14T22:13:21.000000Z"),
    ],
)
def test_times_have_microseconds(moment: float, text: str) -> None:
    stamps = MicrosecondTimestamps()
    assert stamps.text(moment)[:26] == text[:26]
    assert stamps.text(moment).endswith("Z")


def test_the_legacy_form() -> None:
    line = legacy(json.dumps(EVENT).encode()).decode()
    assert line == (
        '2026-01-01T00:00:00.000001Z AUDIT: id="1-2" stage="ResponseComplete" ip="10.1.1.1" '
        'method="list" user="tim" groups="\\"a\\",\\"b\\\\\\"c\\"" as="<self>" '
        'asgroups="<lookup>" user-agent="kubectl" namespace="ns" '
        'uri="/api/v1/pods?limit=1" response="200"'
    )


def test_the_legacy_form_of_little() -> None:
    event = {
        **EVENT,
        "user": {},
        "impersonatedUser": {"username": "bob", "groups": ["x"]},
        "sourceIPs": [],
        "objectRef": None,
        "responseStatus": None,
    }
    line = legacy(json.dumps(event).encode()).decode()
    for part in (
        'ip="<unknown>"',
        'user="<none>" groups="<none>" as="bob" asgroups="\\"x\\""',
        'namespace="<none>"',
        'response="<deferred>"',
    ):
        assert part in line


def test_an_event_without_its_bodies_says_so() -> None:
    event = {
        **EVENT,
        "requestObject": {"a": 1},
        "responseObject": {"b": 2},
        "annotations": {"k": "v"},
    }
    shortened = json.loads(without_bodies(json.dumps(event).encode()))
    expected = {**EVENT, "annotations": {"k": "v", "audit.k8s.io/truncated": "true"}}
    assert shortened == expected


def test_a_list_of_events() -> None:
    assert json.loads(event_list([b'{"a":1}', b'{"b":2}'])) == {
        "kind": "EventList",
        "apiVersion": "audit.k8s.io/v1",
        "metadata": {},
        "items": [{"a": 1}, {"b": 2}],
    }


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            AuditSettings(log=LogSettings(path="x", batch=BatchSettings(mode="lazy"))),
            'invalid audit log mode lazy, allowed modes are "batch,blocking,blocking-strict"',
        ),
        (
            AuditSettings(webhook=WebhookSettings("x", batch=BatchSettings(buffer_size=0))),
            "invalid audit batch webhook buffer size 0, must be a positive number",
        ),
        (
            AuditSettings(webhook=WebhookSettings("x", batch=BatchSettings(throttle_qps=-1))),
            "invalid audit batch webhook throttle QPS -1, must be a positive number",
        ),
        (
            AuditSettings(log=LogSettings(path="x", format="xml")),
            'invalid audit log format xml, allowed formats are "legacy,json"',
        ),
        (
            AuditSettings(log=LogSettings(path="x", max_age=-1)),
            "--audit-log-maxage -1 can't be a negative number",
        ),
        (
            AuditSettings(log=LogSettings("x", truncate=TruncateSettings(True, 10, 20))),
            "invalid audit truncate log max batch size 10, must be greater than max event size (20)",
        ),
    ],
)
def test_settings_are_checked(settings: AuditSettings, problem: str) -> None:
    assert settings.problems() == [problem]


def test_settings_of_what_is_off_do_not_matter() -> None:
    settings = AuditSettings(log=LogSettings(batch=BatchSettings(mode="lazy")))
    assert settings.problems() == []
    assert not settings.is_on
