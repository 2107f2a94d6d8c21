"""Which application answers a path."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykcp.server.call import Call
from pykcp.server.media.answers import PageNotFound
from pykcp.server.mount import FrontDoor, ServiceRoutes, service_name


class _Application:
    def __init__(self, name: str, asked: list[str]) -> None:
        self.name, self._asked = name, asked

    def wants_streaming(self, request: Any) -> bool:
        return self.name == "named"

    def identify(self, exchange: Any) -> bool:
        self._asked.append(f"identify {self.name}")
        return True

    def handle(self, exchange: Any) -> None:
        self._asked.append(self.name)

    async def hand_over(self, call: Call, path: str, hops: int) -> None:
        self._asked.append(f"{self.name} {path} {hops}")


class _Exchange:
    def __init__(self, path: str) -> None:
        self.request = SimpleNamespace(method="GET", path=path)
        self.answer: tuple[int, dict[str, str]] | None = None

    def respond(self, status: int, headers: Any, body: bytes = b"") -> None:
        self.answer = status, dict(headers)


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def services(asked: list[str]) -> ServiceRoutes:
    routes = ServiceRoutes()
    routes.mount("cache", _Application("named", asked))
    routes.mount_default(_Application("default", asked))
    return routes


@pytest.mark.parametrize(
    ("path", "answered_by"),
    [
        ("/api/v1/pods", "api"),
        ("/clusters/root/apis", "api"),
        ("/servicesnot", "api"),
        ("/services/cache/shards/x", "named"),
        ("/services/cache", "named"),
        ("/services/apiexport/root/x", "default"),
        ("/services/", "default"),
    ],
)
def test_paths(path: str, answered_by: str, services: ServiceRoutes, asked: list[str]) -> None:
    door = FrontDoor(_Application("api", asked), services)
    exchange: Any = _Exchange(path)
    assert door.handle(exchange) is None
    assert door.identify(exchange) is True
    assert asked == [answered_by, f"identify {answered_by}"]
    assert door.wants_streaming(exchange.request) == (answered_by == "named")


def test_services_without_a_slash_are_redirected(services: ServiceRoutes) -> None:
    exchange = _Exchange("/services")
    FrontDoor(_Application("api", []), services).handle(cast("Any", exchange))
    assert exchange.answer is not None
    assert exchange.answer[0] == 307
    assert exchange.answer[1]["location"] == "/services/"


async def test_calls_are_handed_over_to_the_default_only(
    services: ServiceRoutes, asked: list[str]
) -> None:
    await services.hand_over(cast("Any", None), "/services/replication/x", 2)
    assert asked == ["default /services/replication/x 2"]
    with pytest.raises(PageNotFound):
        await services.hand_over(cast("Any", None), "/services/cache/x", 2)
    with pytest.raises(PageNotFound):
        await ServiceRoutes().hand_over(cast("Any", None), "/services/x", 2)


def test_service_name() -> None:
    assert [service_name(p) for p in ("/services/a/b", "/services/a", "/services/")] == [
        "a",
        "a",
        "",
    ]
