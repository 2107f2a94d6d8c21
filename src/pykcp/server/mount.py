"""The router of a process: selects the application for a request.

/services                a redirect to /services/
/services/<name>/…       the application that is mounted under this name, or the default one
everything else          the API server
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from pykcp.server.call import Call, Pending
from pykcp.server.media.answers import PageNotFound
from pykcp.wire.exchange import Application, Exchange, IncomingRequest

SERVICES = "/services/"


class ServiceHost(Application, Protocol):
    """Answers requests below `/services/`, and calls of other servers of this process."""

    async def hand_over(self, call: Call, path: str, hops: int) -> None:
        """Answer a call at another path; `hops`: how often it was handed over by then."""


class ServiceRoutes:
    """The applications below `/services/`. They are added before the process listens."""

    def __init__(self) -> None:
        self._named: dict[str, Application] = {}
        self._default: ServiceHost | None = None

    def mount(self, name: str, application: Application) -> None:
        self._named[name] = application

    def mount_default(self, host: ServiceHost) -> None:
        """For names under which nothing is mounted."""
        self._default = host

    def find(self, path: str) -> Application:
        found = self._named.get(service_name(path), self._default)
        assert found is not None, "nothing is mounted"
        return found

    async def hand_over(self, call: Call, path: str, hops: int) -> None:
        """Have a call answered by the default application, at another path."""
        if self._default is None or service_name(path) in self._named:
            raise PageNotFound
        await self._default.hand_over(call, path, hops)


class FrontDoor:
    """The application of a process that serves more than its API."""

    def __init__(self, api: Application, services: ServiceRoutes) -> None:
        self._api, self._services = api, services

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._find(request).wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return self._find(exchange.request).identify(exchange)

    def handle(self, exchange: Exchange) -> Pending:
        path = exchange.request.path
        if not path.startswith(SERVICES):
            if path == SERVICES[:-1]:
                _redirect(exchange)
                return None
            return self._api.handle(exchange)
        return self._services.find(path).handle(exchange)

    def _find(self, request: IncomingRequest) -> Application:
        path = request.path
        return self._services.find(path) if path.startswith(SERVICES) else self._api


def service_name(path: str) -> str:
    """The segment after `/services/`."""
    return path[len(SERVICES) :].partition("/")[0]


def _redirect(exchange: Exchange) -> None:
    body = b'<a href="/services/">Temporary Redirect</a>.\n\n'
    headers = (("content-type", "text/html; charset=utf-8"), ("location", SERVICES))
    exchange.respond(307, headers, body)
