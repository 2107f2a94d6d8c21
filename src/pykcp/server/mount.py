"""The router of a process: selects the application for a request.

/console/…               the web console, unless it is switched off
/services                a redirect to /services/
/services/<name>/…       the application that is mounted under this name, or the default one
everything else          the API server
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import orjson

from pykcp.machinery.status import StatusError
from pykcp.server.call import Call, Pending
from pykcp.server.console.origins import refusal
from pykcp.server.media.answers import PageNotFound
from pykcp.wire.exchange import Application, Exchange, IncomingRequest

SERVICES = "/services/"
CONSOLE = "/console"
_SPECIAL = (SERVICES[:-1], CONSOLE)


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


class StaticPages(Protocol):
    """Answers requests of anyone, without reading more of a body than that of a stranger."""

    def handle(self, exchange: Exchange) -> Pending: ...


class FrontDoor:
    """The application of a process that serves more than its API."""

    def __init__(
        self,
        api: Application,
        services: ServiceRoutes,
        make_console: Callable[[], StaticPages] | None = None,
    ) -> None:
        """`make_console`: called by the first request; None: there is no console."""
        self._api, self._services = api, services
        self._make_console = make_console
        self._console: StaticPages | None = None

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._find(request).wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return self._find(exchange.request).identify(exchange)

    def handle(self, exchange: Exchange) -> Pending:
        request = exchange.request
        if request.method == "POST" and (error := refusal(request)) is not None:
            refuse(exchange, error)
            return None
        path = request.path
        if not path.startswith(_SPECIAL):
            return self._api.handle(exchange)
        if path.startswith(SERVICES):
            return self._services.find(path).handle(exchange)
        if path == SERVICES[:-1]:
            _redirect(exchange)
            return None
        if self._make_console is not None and is_console(path):
            if self._console is None:
                self._console = self._make_console()
            return self._console.handle(exchange)
        return self._api.handle(exchange)

    def _find(self, request: IncomingRequest) -> Application:
        path = request.path
        return self._services.find(path) if path.startswith(SERVICES) else self._api


def is_console(path: str) -> bool:
    """Whether a path belongs to the console."""
    return path.startswith(CONSOLE) and path[len(CONSOLE) : len(CONSOLE) + 1] in ("", "/")


def refuse(exchange: Exchange, error: StatusError) -> None:
    """Answer a request that no application shall see."""
    headers = (("content-type", "application/json"),)
    exchange.respond(error.code, headers, orjson.dumps(error.to_json()))


def service_name(path: str) -> str:
    """The segment after `/services/`."""
    return path[len(SERVICES) :].partition("/")[0]


def _redirect(exchange: Exchange) -> None:
    body = b'<a href="/services/">Temporary Redirect</a>.\n\n'
    headers = (("content-type", "text/html; charset=utf-8"), ("location", SERVICES))
    exchange.respond(307, headers, body)
