"""Kubeconfig files: merged when read, each change written to where it belongs."""

from __future__ import annotations

import pathlib
import threading

import pytest
import yaml

from pykcp.cli.plugins.access import kubeconfig
from pykcp.cli.plugins.access.kubeconfig import Files, Stanza, files_of_environment, load, modify
from pykcp.cli.plugins.errors import PluginError

FIRST = """
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: red
  cluster: {server: "https://red", certificate-authority: ca.crt, extra: kept}
contexts:
- name: one
  context: {cluster: red, user: me}
users:
- name: me
  user: {token: abc}
unknown: {stays: true}
"""
SECOND = """
current-context: two
clusters:
- name: red
  cluster: {server: "https://other"}
- name: blue
  cluster: {server: "https://blue"}
contexts:
- name: two
  context: {cluster: blue, user: me, namespace: here}
users: []
"""


@pytest.fixture
def files(tmp_path: pathlib.Path) -> Files:
    (tmp_path / "first").write_text(FIRST, encoding="utf-8")
    (tmp_path / "second").write_text(SECOND, encoding="utf-8")
    return Files("", (str(tmp_path / "first"), str(tmp_path / "second")))


def _yaml(path: pathlib.Path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_first_file_wins(files, tmp_path):
    config = load(files)
    assert config.current_context == "one"
    assert config.clusters["red"].get("server") == "https://red"
    assert config.clusters["blue"].origin == str(tmp_path / "second")
    assert config.contexts["two"].get("namespace") == "here"


def test_file_names_become_absolute(files, tmp_path):
    authority = load(files).clusters["red"].get("certificate-authority")
    assert authority == str(tmp_path / "ca.crt")


def test_changes_go_where_their_stanza_came_from(files, tmp_path):
    config = load(files)
    changed = config.copy()
    changed.clusters["blue"] = config.clusters["blue"].having(server="https://blue/2")
    changed.clusters["copy"] = config.clusters["red"].having(server="https://red/2")
    changed.contexts["new"] = Stanza({"cluster": "copy", "user": "me"})
    changed.current_context = "new"
    before = (tmp_path / "second").stat().st_mode
    modify(files, changed)
    first, second = _yaml(tmp_path / "first"), _yaml(tmp_path / "second")
    assert first["current-context"] == "new"
    assert [entry["name"] for entry in first["clusters"]] == ["copy", "red"]
    assert [entry["name"] for entry in first["contexts"]] == ["new", "one"]
    assert first["clusters"][0]["cluster"] == {
        "server": "https://red/2",
        "certificate-authority": "ca.crt",
        "extra": "kept",
    }
    assert first["unknown"] == {"stays": True}
    assert second["current-context"] == "two"
    assert second["clusters"][0]["cluster"] == {"server": "https://blue/2"}
    assert (tmp_path / "second").stat().st_mode == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["first", "second"]


def test_nothing_is_written_if_nothing_changes(files, tmp_path):
    modify(files, load(files))
    assert (tmp_path / "first").read_text(encoding="utf-8") == FIRST


def test_stanzas_can_be_removed(files, tmp_path):
    changed = load(files)
    del changed.contexts["two"]
    modify(files, changed)
    assert _yaml(tmp_path / "second")["contexts"] is None


def test_a_new_file_is_for_its_owner_only(tmp_path):
    files = Files("", (str(tmp_path / "folder" / "config"),))
    changed = load(files)
    changed.contexts["a"] = Stanza({"cluster": "c", "user": "u"})
    modify(files, changed)
    written = tmp_path / "folder" / "config"
    assert written.stat().st_mode & 0o777 == 0o600
    assert written.read_text(encoding="utf-8") == (
        "apiVersion: v1\nclusters: null\ncontexts:\n- context:\n    cluster: c\n    user: u\n"
        '  name: a\ncurrent-context: ""\nkind: Config\nusers: null\n'
    )


def test_links_stay_links(files, tmp_path):
    link = tmp_path / "link"
    link.symlink_to("first")
    linked = Files(str(link))
    changed = load(linked)
    changed.current_context = "x"
    modify(linked, changed)
    assert link.is_symlink()
    assert _yaml(tmp_path / "first")["current-context"] == "x"


def test_a_lock_that_nobody_removes_is_reported(files, tmp_path, monkeypatch):
    monkeypatch.setattr(kubeconfig, "_LOCK_SECONDS", 0.0)
    (tmp_path / "first.lock").touch()
    with pytest.raises(PluginError) as caught:
        modify(files, load(files))
    assert str(caught.value) == f"open {tmp_path}/first.lock: file exists"


def test_a_lock_is_waited_for(files, tmp_path):
    lock = tmp_path / "first.lock"
    lock.touch()
    changed = load(files)
    changed.current_context = "x"
    writer = threading.Thread(target=modify, args=(files, changed))
    writer.start()
    lock.unlink()
    writer.join(timeout=30)
    assert load(files).current_context == "x"


def test_files_of_environment(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/a:/b:/a")
    assert files_of_environment("").all() == ("/a", "/b")
    assert files_of_environment("/c").all() == ("/c",)
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", "/home/me")
    assert files_of_environment("").all() == ("/home/me/.kube/config",)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a: [", 'error loading config file "{0}": yaml: line '),
        ("- a", 'error loading config file "{0}": couldn\'t get version/kind; json parse error'),
    ],
)
def test_files_that_cannot_be_read(content, complaint, tmp_path):
    file = tmp_path / "config"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(PluginError) as caught:
        load(Files(str(file)))
    assert str(caught.value).startswith(complaint.format(file))


def test_a_file_that_was_asked_for_must_be_there():
    with pytest.raises(PluginError, match=r"^stat /nosuch: no such file or directory$"):
        load(Files("/nosuch"))
    assert load(Files("", ("/nosuch",))).contexts == {}


def test_exec_is_written_as_kubectl_writes_it():
    command = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}
    content = {"users": [{"name": "me", "user": {"exec": command, "token": ""}}]}
    assert kubeconfig.normal(content)["users"] == [
        {
            "name": "me",
            "user": {
                "exec": {
                    **command,
                    "args": None,
                    "env": None,
                    "provideClusterInfo": False,
                    "interactiveMode": "IfAvailable",
                }
            },
        }
    ]
