"""What a stack works for is named without anything that a client chose freely."""

from __future__ import annotations

import sys
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from pykcp.observe.stalls import LoopHolder
from pykcp.registry.resource import Resource
from pykcp.server.call import Call
from pykcp.server.loop_holder import identify
from pykcp.server.request_info import parse


def _frame(module: str, **names: Any) -> FrameType:
    """A frame of a function in that module with those locals."""
    text = f"def f({', '.join(names)}):\n    return sys._getframe()"
    scope: dict[str, Any] = {"__name__": module, "sys": sys}
    exec(text, scope)
    frame: FrameType = scope["f"](**names)
    return frame


def _call(method: str, path: str, *, known: bool = True) -> Call:
    call = Call(SimpleNamespace(), parse(method, path, ""))  # type: ignore[arg-type]
    if known:
        call.resource = Resource.__new__(Resource)
    return call


CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.mark.parametrize(
    ("call", "held"),
    [
        (
            _call("POST", CRD),
            LoopHolder(
                "server.handlers.create",
                "create",
                "customresourcedefinitions.apiextensions.k8s.io",
            ),
        ),
        (
            _call("GET", "/api/v1/namespaces/secret-name/configmaps/secret"),
            LoopHolder("server.handlers.create", "get", "configmaps"),
        ),
        (
            _call("GET", "/apis/secret/v1/names", known=False),
            LoopHolder("server.handlers.create", "list"),
        ),
        (_call("SECRET", "/secret"), LoopHolder("server.handlers.create", "other")),
    ],
)
def test_requests(call: Call, held: LoopHolder) -> None:
    frames = [
        _frame("pykcp.wire.serving"),
        _frame("pykcp.server.app", call=call),
        _frame("pykcp.server.handlers.create", call=call),
        _frame("pykcp.machinery.patch.apply"),
    ]
    assert identify(frames) == held


def test_controllers_and_strangers() -> None:
    runtime = _frame("pykcp.controllers.runtime.controller")
    assert identify([runtime, _frame("pykcp.controllers.kube.garbage")]) == LoopHolder(
        "controllers.kube.garbage"
    )
    assert identify(
        [_frame("pykcp.wire.connection"), _frame("pykcp.wire.http2.machine")]
    ) == LoopHolder("wire.http2.machine")
    assert identify([_frame("aiohttp.client", call="no call")]) == LoopHolder("aiohttp")
