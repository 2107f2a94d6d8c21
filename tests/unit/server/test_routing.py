"""Which methods fit which places, and how the others are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykcp.machinery.status import StatusError
from pykcp.server import routing
from pykcp.server.call import Call
from pykcp.server.media.answers import PageNotFound

MakeCall = Callable[..., Call]
CM = "/api/v1/namespaces/default/configmaps"
EXPORTS = "/apis/apis.kcp.io/v1alpha1/apiexports"


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", CM), ("GET", "/api/v1/configmaps"), ("POST", CM), ("DELETE", CM), ("GET", f"{CM}/a"),
        ("PUT", f"{CM}/a"), ("PATCH", f"{CM}/a"), ("DELETE", f"{CM}/a"), ("GET", f"{CM}?watch=1"),
        ("GET", "/api/v1/namespaces/a/status"), ("PUT", "/api/v1/namespaces/a/finalize"),
        ("POST", "/api/v1/namespaces/a/serviceaccounts/b/token"), ("GET", EXPORTS), ("POST", EXPORTS),
        ("GET", "/clusters/*/api/v1/configmaps"),
    ],
)  # fmt: skip
def test_what_fits(make_call: MakeCall, method: str, url: str) -> None:
    """Verbs that the resource has, where it has them."""
    routing.check(make_call(method, url))


@pytest.mark.parametrize(
    ("method", "url", "code"),
    [
        pytest.param("GET", "/api/v1/configmaps/a", 404, id="namespaced, without a namespace"),
        pytest.param("GET", "/api/v1/namespaces/a/namespaces", 404, id="not namespaced, with one"),
        pytest.param("GET", f"{CM}/a/nosuch", 404, id="no such subresource"),
        pytest.param("GET", f"{CM}/a/status/x", 404, id="too deep"),
        pytest.param("POST", f"{CM}/a", 405, id="create of an item"),
        pytest.param("PUT", CM, 405, id="update of a collection"),
        pytest.param("PATCH", CM, 405, id="patch of a collection"),
        pytest.param("POST", "/api/v1/configmaps", 405, id="create in all namespaces"),
        pytest.param("DELETE", "/api/v1/configmaps", 405, id="deletecollection in all namespaces"),
        pytest.param("HEAD", f"{CM}/a", 405, id="HEAD"),
        pytest.param("PROPFIND", CM, 405, id="unknown method"),
        pytest.param(
            "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405, id="reviews"
        ),
        pytest.param("POST", "/clusters/*/api/v1/namespaces", 405, id="write over all clusters"),
    ],
)
def test_what_does_not_fit(make_call: MakeCall, method: str, url: str, code: int) -> None:
    """404 where there is nothing, 405 where there is something else to do."""
    with pytest.raises(StatusError) as caught:
        routing.check(make_call(method, url))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("method", "url", "message"),
    [
        ("PUT", EXPORTS, "name must be provided"),
        ("GET", f"{EXPORTS}/a/nosuch", 'apiexports.apis.kcp.io "a" not found'),
        ("POST", f"{EXPORTS}/a/status", 'create is not supported on resources of kind "apiexports.apis.kcp.io"'),
        ("PROPFIND", EXPORTS, ' is not supported on resources of kind "apiexports.apis.kcp.io"'),
    ],
)  # fmt: skip
def test_custom_resources_are_refused_in_other_words(
    make_call: MakeCall, method: str, url: str, message: str
) -> None:
    """Upstream serves custom resources from another server, whose refusals differ."""
    with pytest.raises(StatusError) as caught:
        routing.check(make_call(method, url))
    assert caught.value.message == message


def test_custom_resources_out_of_place_are_no_page(make_call: MakeCall) -> None:
    """A cluster-scoped custom resource below a namespace is answered in plain text."""
    with pytest.raises(PageNotFound):
        routing.check(make_call("GET", "/apis/apis.kcp.io/v1alpha1/namespaces/a/apiexports/b"))
