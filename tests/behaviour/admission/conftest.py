"""A real webhook server: HTTPS in a thread, answering as the test says."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pykcp.auth.certificates import create_ca, issue_serving
from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess, server

Object = dict[str, Any]
Respond = Callable[[Object], Any]

ROOT = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class HookServer:
    """`on(path, respond)`: `respond` gets the review and returns the response (without uid),
    a whole answer as `web.Response`, or a coroutine of either."""

    def __init__(self, directory: Path) -> None:
        now = time.time()
        authority = create_ca("hooks", now)
        serving = issue_serving(authority, ["127.0.0.1", "localhost"], now)
        self.ca = authority.certificate
        cert, key = directory / "hook.crt", directory / "hook.key"
        cert.write_bytes(serving.certificate)
        key.write_bytes(serving.key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self._responders: dict[str, Respond] = {}
        self._transports: set[asyncio.Transport] = set()
        self.reviews: list[tuple[str, Object]] = []
        """Path and review, in the order in which they came."""
        self.traces: list[str] = []
        """The header `traceparent` of each."""
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.run_forever()

    async def _serve(self) -> None:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self._ready.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            self._transports.add(request.transport)
        review = json.loads(await request.read())
        self.reviews.append((request.path, review))
        self.traces.append(request.headers.get("traceparent", ""))
        answer = self._responders[request.path](review)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        response = {"uid": review["request"]["uid"], **answer}
        return web.json_response(
            {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
        )

    def close(self) -> None:
        async def stop() -> None:
            await self._runner.cleanup()
            for transport in self._transports:  # nobody waits for the other side to say goodbye
                transport.abort()
            self._loop.call_later(0.05, self._loop.stop)

        asyncio.run_coroutine_threadsafe(stop(), self._loop)
        self._thread.join(10)
        self._loop.close()

    def on(self, path: str, respond: Respond) -> str:
        """The URL at which `respond` answers."""
        self._responders[path] = respond
        return f"https://127.0.0.1:{self.port}{path}"

    def seen(self, path: str) -> list[Object]:
        """The requests that came to a path."""
        return [review["request"] for at, review in self.reviews if at == path]


def patch_of(*operations: Object) -> Object:
    """A response that allows with a JSON patch."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


class Hooks:
    """Webhook configurations of one logical cluster, on one webhook server."""

    ROOT = ROOT
    CONFIG_MAPS = CONFIG_MAPS
    patch_of = staticmethod(patch_of)

    def __init__(self, server: HookServer, client: TestClient) -> None:
        self.server = server
        self.client = client

    def add(self, kind: str, name: str, respond: Respond | None, **changes: Any) -> Object:
        """A configuration of one webhook for ConfigMaps; `kind`: Validating or Mutating."""
        path = f"{self.client.prefix}/{name}"
        if respond is not None:
            url = self.server.on(path, respond)
        else:
            url = f"https://127.0.0.1:{self.server.port}{path}"
        hook = {
            "name": f"{name}.example.com",
            "clientConfig": {"url": url, "caBundle": base64.b64encode(self.server.ca).decode()},
            "rules": [self.rule()],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
            **changes,
        }
        made = self.client.post(
            f"{ROOT}/{kind.lower()}webhookconfigurations",
            {"metadata": {"name": name}, "webhooks": [hook]},
        )
        assert made.status == 201, made
        answer: Object = made.json
        return answer

    @staticmethod
    def rule(**changes: Any) -> Object:
        return {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
            **changes,
        }

    def seen(self, name: str) -> list[Object]:
        return self.server.seen(f"{self.client.prefix}/{name}")

    def create(self, name: str, data: Object | None = None, **query: Any) -> Any:
        """Create a ConfigMap; `labels` in `query` are its labels."""
        labels = query.pop("labels", None)
        metadata = {"name": name, **({"labels": labels} if labels else {})}
        return self.client.post(CONFIG_MAPS, {"metadata": metadata, "data": data or {}}, **query)


@pytest.fixture(scope="package")
def shard() -> Iterator[ServerProcess]:
    """One server for all modules here: each test has a logical cluster of its own."""
    with server() as process:
        yield process


@pytest.fixture(scope="module")
def hook_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HookServer]:
    server = HookServer(tmp_path_factory.mktemp("hooks"))
    yield server
    server.close()


@pytest.fixture
def hooks(hook_server: HookServer, cluster: TestClient) -> Hooks:
    return Hooks(hook_server, cluster)


@pytest.fixture
def hooks_in(hook_server: HookServer) -> Callable[[TestClient], Hooks]:
    """Webhook configurations of another logical cluster."""
    return lambda client: Hooks(hook_server, client)
