"""Ends a request: converts errors to Status objects and counts responses."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from pykcp.machinery.status import BadRequest, Denied, InternalError, StatusError, Unauthorized
from pykcp.registry.errors import translate
from pykcp.registry.stored import StoreError
from pykcp.registry.watch.verb import error_line
from pykcp.server import constant_time
from pykcp.server.call import Call, Handler, Pending
from pykcp.server.media import protobuf_form
from pykcp.server.media.answers import send_status
from pykcp.server.media.negotiation import PROTOBUF
from pykcp.server.metrics import RequestMetrics

_log = logging.getLogger(__name__)


class AnswerErrors:
    """Answers a call whose handler raised an error. No client sees a traceback."""

    def __init__(self, metrics: RequestMetrics) -> None:
        self._metrics = metrics

    def around(self, inner: Handler) -> Handler:
        observe = self._metrics.observe

        def answer_errors(call: Call) -> Pending:
            try:
                pending = inner(call)
            except (Denied, Unauthorized) as error:
                return self._deny(call, error)
            except StatusError as error:
                self._answer(call, error)
                return None
            except StoreError as error:  # a read that did not have to wait
                self._answer(call, translate(error))
                return None
            if pending is not None:
                return self._finish(call, pending)
            observe(call)
            return None

        return answer_errors

    async def _finish(self, call: Call, pending: Coroutine[Any, Any, None]) -> None:
        try:
            await pending
        except (Denied, Unauthorized) as error:
            await self._deny(call, error)
        except StatusError as error:
            self._answer(call, error)
        except StoreError as error:
            self._answer(call, translate(error))
        except RecursionError:
            _log.exception("%s %s is nested too deeply", call.info.method, call.info.path)
            self._answer(call, BadRequest("exceeded max depth"))
        except Exception as error:
            _log.exception("%s %s failed", call.info.method, call.info.path)
            if call.audit is not None:
                call.audit.panicked(error)
            self._answer(call, InternalError(f"unexpected error: {type(error).__name__}"))
        else:
            self._metrics.observe(call)
        finally:
            call.release()

    async def _deny(self, call: Call, error: StatusError) -> None:
        # The time of a denial must not disclose whether something exists.
        await constant_time.wait(call.started)
        self._answer(call, error)

    def _answer(self, call: Call, error: StatusError) -> None:
        if call.exchange.responded:
            _log.warning(
                "%s %s failed after its response had started: %s",
                call.info.method,
                call.info.path,
                error,
            )
            _end_watch(call, error)
            return
        send_status(call, error)
        self._metrics.observe(call, error.code)


def _end_watch(call: Call, error: StatusError) -> None:
    """A watch that fails says why in its last event; a client would wait for more otherwise."""
    stream = call.stream
    if stream is None or stream.closed:
        return
    if call.accepted.media_type == PROTOBUF:
        stream.write(protobuf_form.frame("ERROR", error.to_json()))
    else:
        stream.write(error_line(error))
    stream.end()
