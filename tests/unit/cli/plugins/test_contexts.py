"""Going there and back leaves two contexts behind."""

from __future__ import annotations

import pytest

from pykcp.cli.plugins.access.kubeconfig import Kubeconfig, Stanza
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.workspace.contexts import (
    CURRENT,
    PREVIOUS,
    current_server,
    entered,
    swapped,
    with_context,
)


def _config() -> Kubeconfig:
    return Kubeconfig(
        clusters={"root": Stanza({"server": "https://h/clusters/root", "ca": "x"}, "/file")},
        contexts={"root": Stanza({"cluster": "root", "user": "me", "namespace": "n"}, "/file")},
        current_context="root",
    )


def _enter(config: Kubeconfig, path: str) -> Kubeconfig:
    return entered(config, config.contexts[config.current_context], f"https://h/clusters/{path}")


def _back(config: Kubeconfig) -> Kubeconfig:
    return swapped(config, config.contexts[config.current_context])


def test_first_step_keeps_the_old_context_as_previous():
    config = _enter(_config(), "root:a")
    assert config.current_context == CURRENT
    assert config.clusters[CURRENT] == Stanza(
        {"server": "https://h/clusters/root:a", "ca": "x"}, "/file"
    )
    assert config.contexts[CURRENT].fields == {"cluster": CURRENT, "user": "me", "namespace": "n"}
    assert config.contexts[PREVIOUS].get("cluster") == "root"
    assert PREVIOUS not in config.clusters


def test_second_step_moves_the_current_one():
    config = _enter(_enter(_config(), "root:a"), "root:b")
    assert config.clusters[CURRENT].get("server") == "https://h/clusters/root:b"
    assert config.clusters[PREVIOUS].get("server") == "https://h/clusters/root:a"
    assert config.contexts[PREVIOUS].get("cluster") == PREVIOUS


def test_back_and_forth():
    config = _enter(_enter(_config(), "root:a"), "root:b")
    servers = []
    for _ in range(3):
        config = _back(config)
        servers.append(current_server(config).rpartition("/")[2])
    assert servers == ["root:a", "root:b", "root:a"]


def test_back_to_a_context_of_another_name():
    config = _back(_enter(_config(), "root:a"))
    assert current_server(config) == "https://h/clusters/root"
    assert config.contexts[CURRENT].get("cluster") == "root"
    assert config.contexts[PREVIOUS].get("cluster") == PREVIOUS


def test_nowhere_to_go_back_to():
    with pytest.raises(PluginError, match=r"^no previous workspace found in kubeconfig$"):
        _back(_config())


def test_a_cluster_that_is_missing():
    config = _config()
    context = Stanza({"cluster": "gone"})
    with pytest.raises(PluginError, match=r'^cluster "gone" not found in kubeconfig$'):
        entered(config, context, "https://h")


@pytest.mark.parametrize(("keeps", "current"), [(True, "root"), (False, "mine")])
def test_contexts_that_stay(keeps, current):
    config = _config()
    cluster = config.clusters["root"]
    result = with_context(config, "mine", config.contexts["root"], cluster, keeps_current=keeps)
    assert result.current_context == current
    assert result.contexts["mine"].get("cluster") == "mine"
    assert result.clusters["mine"] == cluster
    assert config.contexts.keys() == {"root"}
