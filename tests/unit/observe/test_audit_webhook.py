"""The audit webhook against a real HTTP server: what it is sent, and when again."""

from __future__ import annotations

import json
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml
from aiohttp import web

from pykcp.observe.audit.policy import PolicyError
from pykcp.observe.audit.webhook import TRIES, AuditWebhook, AuditWebhookFailed, load_target


class Receiver:
    """Answers with the codes it is told to, and remembers what it got."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.headers.append(request.headers)
        self.bodies.append(json.loads(await request.read()))
        return web.Response(status=self.codes.pop(0) if self.codes else 200)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    app = web.Application()
    app.router.add_post("/audit", made.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/audit"
    yield made
    await runner.cleanup()


def kubeconfig(path: pathlib.Path, server: str, **user: str) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


async def test_events_arrive_as_a_list(receiver: Receiver, tmp_path: pathlib.Path) -> None:
    webhook = AuditWebhook(load_target(kubeconfig(tmp_path / "k", receiver.url, token="t1")), 0.01)
    await webhook.send([b'{"auditID":"1"}', b'{"auditID":"2"}'])
    await webhook.close()
    (body,) = receiver.bodies
    assert body["kind"] == "EventList"
    assert [item["auditID"] for item in body["items"]] == ["1", "2"]
    assert receiver.headers[0]["Authorization"] == "Bearer t1"


async def test_a_failed_send_is_tried_again(receiver: Receiver, tmp_path: pathlib.Path) -> None:
    receiver.codes = [500, 503, 429, 200]
    webhook = AuditWebhook(load_target(kubeconfig(tmp_path / "k", receiver.url)), 0.001)
    await webhook.send([b'{"auditID":"1"}'])
    await webhook.close()
    assert len(receiver.bodies) == 4


async def test_it_gives_up_in_the_end(receiver: Receiver, tmp_path: pathlib.Path) -> None:
    receiver.codes = [500] * 10
    webhook = AuditWebhook(load_target(kubeconfig(tmp_path / "k", receiver.url)), 0.001)
    with pytest.raises(AuditWebhookFailed, match="took no events in 5 tries: HTTP 500"):
        await webhook.send([b"{}"])
    await webhook.close()
    assert len(receiver.bodies) == TRIES


async def test_a_server_that_is_not_there(tmp_path: pathlib.Path) -> None:
    webhook = AuditWebhook(
        load_target(kubeconfig(tmp_path / "k", "http://127.0.0.1:9/audit")), 0.001
    )
    with pytest.raises(AuditWebhookFailed, match="Connect"):
        await webhook.send([b"{}"])
    await webhook.close()


def test_tokens_in_files_and_passwords(tmp_path: pathlib.Path) -> None:
    (tmp_path / "token").write_text("t2\n")
    target = load_target(kubeconfig(tmp_path / "k", "http://x", tokenFile="token"))
    assert target.headers["authorization"] == "Bearer t2"
    target = load_target(kubeconfig(tmp_path / "k", "http://x", username="a", password="b"))
    assert target.headers["authorization"] == "Basic YTpi"


@pytest.mark.parametrize("text", ["", "a: [", "kind: Config\n"])
def test_a_broken_file_is_told(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(PolicyError, match="initializing audit webhook: "):
        load_target(str(path))
