"""One server and one user, out of files and flags."""

from __future__ import annotations

import pytest

from pykcp.cli.plugins.access.client_config import NOTHING_GIVEN, ClientConfig
from pykcp.cli.plugins.access.kubeconfig import Files
from pykcp.cli.plugins.errors import PluginError

CONFIG = """
current-context: one
clusters:
- name: red
  cluster: {server: "https://red/clusters/root?x=y", certificate-authority-data: YQ==, tls-server-name: r}
- name: blue
  cluster: {server: "https://blue"}
contexts:
- {name: one, context: {cluster: red, user: me}}
- {name: two, context: {cluster: blue, user: you}}
- {name: lost, context: {cluster: gone, user: you}}
users:
- {name: me, user: {token: abc}}
- {name: you, user: {client-certificate-data: YQ==, client-key-data: YQ==}}
"""


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "config"
    file.write_text(CONFIG, encoding="utf-8")
    return lambda **flags: ClientConfig(
        Files(str(file)), {name.replace("_", "-"): value for name, value in flags.items()}
    )


@pytest.mark.parametrize(
    ("flags", "host", "cluster", "user"),
    [
        (
            {},
            "https://red/clusters/root",
            {"certificate-authority-data": "YQ==", "tls-server-name": "r"},
            {"token": "abc"},
        ),
        (
            {"context": "two"},
            "https://blue",
            {},
            {"client-certificate-data": "YQ==", "client-key-data": "YQ=="},
        ),
        (
            {"cluster": "blue", "user": "me", "token": "xyz"},
            "https://blue",
            {},
            {"token": "xyz"},
        ),
        (
            {"server": "https://x"},
            "https://x",
            {"certificate-authority-data": "YQ=="},
            {"token": "abc"},
        ),
        (
            {"insecure_skip_tls_verify": True},
            "https://red/clusters/root",
            {"insecure-skip-tls-verify": True, "tls-server-name": "r"},
            {"token": "abc"},
        ),
        (
            {"as": "you", "as_group": ["a", "b"], "as_user_extra": ["k=v", "k=w"]},
            "https://red/clusters/root",
            {"certificate-authority-data": "YQ==", "tls-server-name": "r"},
            {
                "token": "abc",
                "as": "you",
                "as-groups": ["a", "b"],
                "as-user-extra": {"k": ["v", "w"]},
            },
        ),
    ],
)
def test_target(config, flags, host, cluster, user):
    target = config(**flags).target()
    assert target.host == host
    assert {k: v for k, v in target.cluster.items() if k != "server"} == cluster
    assert target.user == user


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"context": "nosuch"}, 'context "nosuch" does not exist'),
        ({"user": "nosuch"}, 'auth info "nosuch" does not exist'),
        ({"cluster": "nosuch"}, 'cluster "nosuch" does not exist'),
        ({"context": "lost"}, NOTHING_GIVEN),
        (
            {"username": "a", "password": "b"},
            (
                "invalid configuration: more than one authentication method found for me; "
                "found [token basicAuth], only one is allowed"
            ),
        ),
        (
            {"as_uid": "1"},
            (
                "invalid configuration: requesting uid, groups or user-extra for me "
                "without impersonating a user"
            ),
        ),
        (
            {"certificate_authority": "/nosuch"},
            (
                "invalid configuration: unable to read certificate-authority /nosuch for red "
                "due to open /nosuch: no such file or directory"
            ),
        ),
        (
            {"client_certificate": "/nosuch"},
            (
                "invalid configuration: [client-key-data or client-key must be specified for me to "
                "use the clientCert authentication method., unable to read client-cert /nosuch for "
                "me due to open /nosuch: no such file or directory]"
            ),
        ),
        ({"request_timeout": "soon"}, "Invalid timeout value."),
    ],
)
def test_what_cannot_work_is_said(config, flags, complaint, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(PluginError) as caught:
        config(**flags).target()
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize(("text", "seconds"), [("0", None), ("5", 5.0), ("2m", 120.0)])
def test_timeouts(config, text, seconds):
    assert config(request_timeout=text).target().timeout == seconds


def test_nothing_at_all(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(PluginError) as caught:
        ClientConfig(Files("", ("/nosuch",)), {}).target()
    assert str(caught.value) == NOTHING_GIVEN
