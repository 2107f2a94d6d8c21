"""Requests that belong to a trace: what they call is told so."""

from __future__ import annotations

from pykcp.observe.tracing import HEADER, within
from pykcp.server.call import Call, Handler, Pending


class PassTrace:
    """Only writes call other servers on behalf of a request: webhooks of admission."""

    def around(self, inner: Handler) -> Handler:
        def pass_trace(call: Call) -> Pending:
            pending = inner(call)
            if pending is None or call.info.method == "GET":
                return pending
            traceparent = call.exchange.request.header(HEADER)
            return within(traceparent, pending) if traceparent else pending

        return pass_trace
