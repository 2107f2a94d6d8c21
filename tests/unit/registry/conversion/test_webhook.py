"""Conversion by webhook, without a webhook: what is asked, and what is made of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from pykcp.apis.loader import shared_type
from pykcp.machinery.schema.custom import custom_type
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.registry import codec
from pykcp.registry.conversion.review import (
    ConversionCallFailed,
    ConversionEndpoint,
    ConversionFailed,
    Converter,
    endpoint_of,
)
from pykcp.registry.conversion.webhook import WebhookConversion
from pykcp.registry.watch.converting import ConvertingSink, RawEncoder

Object = dict[str, Any]
V1, V2 = "example.com/v1", "example.com/v2"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Webhook:
    """Counts calls; converts by saying in `spec.was` what the object was."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.failure = ""
        self.answer_later = asyncio.Event()
        self.answer_later.set()

    async def __call__(self, endpoint: ConversionEndpoint, body: bytes, cluster: str) -> bytes:
        await self.answer_later.wait()
        request = orjson.loads(body)["request"]
        self.batches.append(len(request["objects"]))
        if self.failure:
            raise ConversionCallFailed(self.failure)
        version = request["desiredAPIVersion"]
        converted = [
            {**o, "apiVersion": version, "spec": {**o["spec"], "was": o["apiVersion"]}}
            for o in request["objects"]
        ]
        return orjson.dumps(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "ConversionReview",
                "response": {
                    "uid": request["uid"],
                    "result": {"status": "Success"},
                    "convertedObjects": converted,
                },
            }
        )


def conversion(webhook: Webhook, own: str = V2, unmarked: str = V1) -> WebhookConversion:
    spec = {"webhook": {"conversionReviewVersions": ["v9", "v1"]}}
    meta = shared_type("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    schemas = {v: from_json(ANYTHING) for v in (V1, V2)}
    types = {v: custom_type(schema, meta) for v, schema in schemas.items()}
    converter = Converter("Box", spec, webhook)
    return WebhookConversion(converter, types, kind="Box", own=own, storage=V1, unmarked=unmarked)


def stored(number: int, version: str = "") -> bytes:
    obj = {"metadata": {"name": f"b{number}", "uid": str(number)}, "spec": {"n": number}}
    mark = codec.version_suffix(version) if version else b""
    return codec.fill(codec.encode(obj, "root", mark), number)


def spec_of(value: bytes) -> Object:
    spec: Object = codec.decode(value)["spec"]
    return spec


async def test_only_what_is_of_another_version_is_sent() -> None:
    webhook = Webhook()
    found = await conversion(webhook).from_storage([stored(1), stored(2, V2), stored(3, V1)])
    assert webhook.batches == [2]
    assert [spec_of(v) for v in found] == [{"n": 1, "was": V1}, {"n": 2}, {"n": 3, "was": V1}]
    assert [codec.stored_version(v) for v in found] == ["", "", ""]
    assert [codec.revision_of(v) for v in found] == [1, 2, 3]


async def test_large_lists_are_sent_in_parts() -> None:
    webhook = Webhook()
    found = await conversion(webhook).from_storage([stored(n) for n in range(1, 1202)])
    assert webhook.batches == [500, 500, 201]
    assert [spec_of(v)["n"] for v in found] == list(range(1, 1202))


async def test_the_storage_version_is_stored_as_it_is() -> None:
    webhook = Webhook()
    obj = {"metadata": {"name": "a"}, "spec": {}}
    assert await conversion(webhook, own=V1).to_storage(obj) is obj
    assert webhook.batches == []


async def test_a_version_that_is_gone_cannot_be_read() -> None:
    with pytest.raises(ConversionFailed) as refused:
        await conversion(Webhook()).from_storage([stored(1, "example.com/v0")])
    assert refused.value.message == (
        "request to convert CR from an invalid group/version: example.com/v0"
    )


async def test_events_are_converted_once_for_all_watches() -> None:
    webhook = Webhook()
    shared = conversion(webhook)
    webhook.answer_later.clear()
    watches = [asyncio.ensure_future(shared.of_events([stored(1), stored(2)])) for _ in range(3)]
    await asyncio.sleep(0)
    webhook.answer_later.set()
    results = await asyncio.gather(*watches)
    assert webhook.batches == [2]
    assert results[0] == results[1] == results[2]


async def test_a_failure_is_not_remembered() -> None:
    webhook = Webhook()
    shared = conversion(webhook)
    webhook.failure = "no"
    with pytest.raises(ConversionFailed):
        await shared.of_events([stored(1)])
    webhook.failure = ""
    (found,) = await shared.of_events([stored(1)])
    assert spec_of(found)["was"] == V1


async def test_what_cannot_wait_is_tried_again_with_what_it_needed() -> None:
    webhook = Webhook()
    own = conversion(webhook)
    obj = {"apiVersion": V2, "metadata": {"name": "a"}, "spec": {}}
    tries: list[int] = []

    def make() -> Object:
        tries.append(1)
        first = own.converted(obj, V1)
        return own.converted({**obj, "spec": {"from": first["spec"]["was"]}}, V1)

    found = await own.retrying(make)
    assert found["spec"] == {"from": V2, "was": V2}
    assert len(tries) == 3
    assert webhook.batches == [1, 1]


class Lines:
    """A watch's form, and where it goes."""

    form = shared = "lines"
    can_wait = False

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False
        self.backlog = 0

    def event(self, kind: str, event: Any) -> bytes:
        return self.initial(kind, event.value)

    def initial(self, kind: str, value: bytes) -> bytes:
        return f"{kind} {spec_of(value)['n']}".encode()

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        return b'{"bookmark":%d}' % revision

    async def text_elsewhere(self, kind: str, value: bytes) -> bytes:
        raise NotImplementedError

    def with_text(self, kind: str, value: bytes, text: bytes) -> bytes:
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def end(self, trailers: Sequence[tuple[str, str]] = ()) -> None:
        self.closed = True


async def test_events_and_bookmarks_stay_in_order() -> None:
    webhook, lines = Webhook(), Lines()
    sink, raw = ConvertingSink(lines, lines, conversion(webhook)), RawEncoder(lines)
    webhook.answer_later.clear()
    sink.write(raw.initial("ADDED", stored(1)))
    await asyncio.sleep(0)
    sink.write(raw.bookmark(1, is_initial_end=False))
    sink.write(raw.initial("MODIFIED", stored(2)))
    assert sink.backlog > 0
    webhook.answer_later.set()
    await sink.drain()
    assert lines.written == [b"ADDED 1", b'{"bookmark":1}', b"MODIFIED 2"]
    assert sink.backlog == 0
    sink.end()
    assert lines.closed


async def test_what_waits_is_sent_before_the_end() -> None:
    webhook, lines = Webhook(), Lines()
    sink, raw = ConvertingSink(lines, lines, conversion(webhook)), RawEncoder(lines)
    sink.write(raw.initial("DELETED", stored(1)))
    sink.end()
    assert not lines.closed
    await sink.drain()
    assert (lines.written, lines.closed) == ([b"DELETED 1"], True)


def test_the_endpoint_of_a_definition() -> None:
    client = {"service": {"namespace": "ns", "name": "hook", "path": "/c"}, "caBundle": "Cg=="}
    found = endpoint_of({"webhook": {"clientConfig": client}})
    assert found.service is not None
    assert (found.service.name, found.service.port, found.ca_bundle) == ("hook", 443, b"")
