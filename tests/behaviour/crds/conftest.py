"""A real conversion webhook: HTTPS in a thread, converting as the test says."""

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
from pykcp.testing.server import ServerProcess, server

Object = dict[str, Any]
Respond = Callable[[Object], Any]


def move_size(obj: Object, version: str) -> Object:
    """v1 has `size: "3x4"`, v2 has `width` and `height`."""
    obj = json.loads(json.dumps(obj))
    spec = obj.get("spec") or {}
    if version.endswith("/v2") and "size" in spec:
        width, height = spec.pop("size").split("x")
        spec |= {"width": int(width), "height": int(height)}
    elif version.endswith("/v1") and "width" in spec:
        spec["size"] = f"{spec.pop('width')}x{spec.pop('height')}"
    return {**obj, "apiVersion": version}


def convert(review: Object) -> Object:
    """The whole answer of a good webhook."""
    request = review["request"]
    converted = [move_size(o, request["desiredAPIVersion"]) for o in request["objects"]]
    return answer(review, convertedObjects=converted, result={"status": "Success"})


def answer(review: Object, **response: Any) -> Object:
    return {
        "apiVersion": review["apiVersion"],
        "kind": "ConversionReview",
        "response": {"uid": review["request"]["uid"], **response},
    }


def spoiled(**changes: Any) -> Respond:
    """A webhook whose converted objects, or whose response, are wrong in one way."""

    def respond(review: Object) -> Object:
        found = convert(review)
        response = found["response"]
        for name, value in changes.items():
            if name == "metadata":
                for obj in response["convertedObjects"]:
                    obj["metadata"] |= value
            elif name in ("apiVersion", "kind"):
                for obj in response["convertedObjects"]:
                    obj[name] = value
            else:
                response[name] = value
        return found

    return respond


class ConversionServer:
    """`respond` gets a review and returns the answer."""

    spoiled = staticmethod(spoiled)

    def __init__(self, directory: Path) -> None:
        now = time.time()
        authority = create_ca("hooks", now)
        serving = issue_serving(authority, ["127.0.0.1", "localhost"], now)
        self.ca = base64.b64encode(authority.certificate).decode()
        cert, key = directory / "hook.crt", directory / "hook.key"
        cert.write_bytes(serving.certificate)
        key.write_bytes(serving.key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self.respond: Respond = convert
        self.reviews: list[Object] = []
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
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self._ready.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        review = json.loads(await request.read())
        self.reviews.append(review)
        found = self.respond(review)
        return found if isinstance(found, web.StreamResponse) else web.json_response(found)

    def strategy(self, *review_versions: str) -> Object:
        """`spec.conversion` that leads here."""
        url = f"https://127.0.0.1:{self.port}/convert"
        return {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": url, "caBundle": self.ca},
                "conversionReviewVersions": list(review_versions) or ["v1"],
            },
        }

    def close(self) -> None:
        async def stop() -> None:
            await self._runner.cleanup()
            self._loop.stop()

        asyncio.run_coroutine_threadsafe(stop(), self._loop)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture(scope="module")
def converter_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConversionServer]:
    found = ConversionServer(tmp_path_factory.mktemp("hooks"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def shard(converter_process: ConversionServer) -> Iterator[ServerProcess]:
    """A server that ends, and closes its connections, before the webhook does."""
    with server() as process:
        yield process


@pytest.fixture
def converter(converter_process: ConversionServer) -> ConversionServer:
    """A webhook that converts well, and has seen nothing yet."""
    converter_process.respond = convert
    converter_process.reviews.clear()
    return converter_process
