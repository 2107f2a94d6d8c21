"""Kubeconfig files: read, merged, and written back to where each part came from.

Several files act as one: the first to name a cluster, user or context has its say, and so has the
first to set the current context. A changed part goes back to the file that it (or what it was
copied from) came from, new parts go to the first file that exists. Everything else in the files
is left alone, unknown fields included.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pykcp.cli.plugins.errors import PluginError

Object = dict[str, Any]
KINDS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_PATHS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
    "contexts": (),
}
_LOCK_SECONDS = 2.0


class Stanza(NamedTuple):
    """One cluster, user or context."""

    fields: Object
    origin: str = ""

    def get(self, name: str) -> str:
        return str(self.fields.get(name) or "")

    def having(self, **fields: Any) -> Stanza:
        return self._replace(fields={**self.fields, **fields})


class Kubeconfig:
    def __init__(
        self,
        clusters: dict[str, Stanza] | None = None,
        users: dict[str, Stanza] | None = None,
        contexts: dict[str, Stanza] | None = None,
        current_context: str = "",
    ) -> None:
        self.clusters = clusters or {}
        self.users = users or {}
        self.contexts = contexts or {}
        self.current_context = current_context

    def stanzas(self, kind: str) -> dict[str, Stanza]:
        found: dict[str, Stanza] = getattr(self, kind)
        return found

    def copy(self) -> Kubeconfig:
        return Kubeconfig(
            dict(self.clusters), dict(self.users), dict(self.contexts), self.current_context
        )


class Files(NamedTuple):
    """The kubeconfig files: from a flag, from $KUBECONFIG, or the default in the home directory."""

    explicit: str = ""
    precedence: tuple[str, ...] = ()

    def all(self) -> tuple[str, ...]:
        return (self.explicit,) if self.explicit else self.precedence

    def default(self) -> str:
        """The file for new entries."""
        if self.explicit:
            return self.explicit
        existing = [name for name in self.precedence if os.path.exists(name)]
        return existing[0] if existing else next(iter(self.precedence), "")


def files_of_environment(explicit: str) -> Files:
    named = os.environ.get("KUBECONFIG", "")
    if named:
        return Files(explicit, tuple(dict.fromkeys(named.split(os.pathsep))))
    return Files(explicit, (os.path.join(os.path.expanduser("~"), ".kube", "config"),))


def load(files: Files) -> Kubeconfig:
    """All files merged, with absolute paths; a missing file is empty unless it was given explicitly."""
    merged = Kubeconfig()
    for name in files.all():
        if not name:
            continue
        try:
            content = _read(name)
        except FileNotFoundError:
            if files.explicit:
                raise PluginError(f"stat {name}: no such file or directory") from None
            continue
        except PluginError as error:
            raise PluginError(f'error loading config file "{name}": {error}') from None
        _merge(merged, content, name)
    return merged


def _merge(merged: Kubeconfig, content: Object, name: str) -> None:
    for kind, word in KINDS.items():
        stanzas = merged.stanzas(kind)
        for entry in content.get(kind) or []:
            fields = dict(entry.get(word) or {})
            absolute = _absolute(kind, fields, name)
            stanzas.setdefault(str(entry.get("name", "")), Stanza(absolute, name))
    merged.current_context = merged.current_context or str(content.get("current-context") or "")


def _read(name: str) -> Object:
    """One file as it stands."""
    try:
        with open(name, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise PluginError(f"open {name}: {(error.strerror or str(error)).lower()}") from None
    if not data.strip():
        return {}
    from pykcp.server.media.yaml_text import BadYAML, parse

    try:
        content = parse(data)
    except BadYAML as error:
        raise PluginError(str(error)) from None
    if not isinstance(content, dict):
        raise PluginError("couldn't get version/kind; json parse error: not an object")
    return content


def _path_fields(kind: str, fields: Object) -> Iterator[tuple[Object, str]]:
    """The fields that hold file names, each with the object it stands in."""
    for name in _PATHS[kind]:
        if fields.get(name):
            yield fields, name
    command = (fields.get("exec") or {}).get("command", "") if kind == "users" else ""
    if os.sep in command:
        fields["exec"] = dict(fields["exec"])
        yield fields["exec"], "command"


def _absolute(kind: str, fields: Object, origin: str) -> Object:
    base = os.path.dirname(os.path.abspath(origin))
    for holder, name in _path_fields(kind, fields):
        holder[name] = os.path.normpath(os.path.join(base, holder[name]))
    return fields


def _relative(kind: str, fields: Object, origin: str) -> Object:
    """Paths below the file's directory are written relative to it; others are unchanged."""
    base = os.path.dirname(os.path.abspath(origin))
    fields = dict(fields)
    for holder, name in _path_fields(kind, fields):
        relative = os.path.relpath(holder[name], base)
        if not relative.startswith("../"):
            holder[name] = relative
    return fields


def modify(files: Files, wanted: Kubeconfig) -> None:
    """Write the changes compared with the files on disk, each to the file of its entry."""
    with _locked(files.all()):
        present = load(files)
        contents: dict[str, Object] = {}
        if present.current_context != wanted.current_context:
            _content(contents, files.default())["current-context"] = wanted.current_context
        for kind in KINDS:
            _modify_kind(kind, present, wanted, files, contents)
        for name, content in contents.items():
            _write(name, content)


def _modify_kind(
    kind: str, present: Kubeconfig, wanted: Kubeconfig, files: Files, contents: dict[str, Object]
) -> None:
    before, after = present.stanzas(kind), wanted.stanzas(kind)
    for name, stanza in after.items():
        if before.get(name) != stanza:
            target = stanza.origin or files.default()
            fields = _relative(kind, stanza.fields, target)
            _put(_content(contents, target), kind, name, fields)
    for name, stanza in before.items():
        if name not in after:
            _put(_content(contents, stanza.origin or files.default()), kind, name, None)


def _content(contents: dict[str, Object], name: str) -> Object:
    if name not in contents:
        try:
            contents[name] = _read(name)
        except FileNotFoundError:
            contents[name] = {}
    return contents[name]


def _put(content: Object, kind: str, name: str, fields: Object | None) -> None:
    entries = [entry for entry in content.get(kind) or [] if entry.get("name") != name]
    if fields is not None:
        entries.append({"name": name, KINDS[kind]: fields})
    content[kind] = entries


def _write(name: str, content: Object) -> None:
    from pykcp.cli.plugins.go_yaml import dump

    text = dump(normal(content))
    folder = os.path.dirname(name) or "."
    os.makedirs(folder, mode=0o755, exist_ok=True)
    # in place, so that links and permissions stay what they are
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def normal(content: Object) -> Object:
    """A file's content in kubectl's format: sorted, without empty fields."""
    result = {name: value for name, value in content.items() if value not in (None, "", [], {})}
    result |= {"apiVersion": "v1", "kind": "Config"}
    result["current-context"] = content.get("current-context") or ""
    for kind, word in KINDS.items():
        entries = sorted(content.get(kind) or [], key=lambda entry: str(entry.get("name", "")))
        result[kind] = [
            {**entry, word: _normal_fields(kind, entry.get(word) or {})} for entry in entries
        ] or None
    return result


_KEPT = {"clusters": ("server",), "contexts": ("cluster", "user"), "users": ()}


def _normal_fields(kind: str, fields: Object) -> Object:
    result = {
        name: value for name, value in fields.items() if value not in (None, "", [], {}, False)
    }
    result |= {name: fields.get(name) or "" for name in _KEPT[kind]}
    command = fields.get("exec")
    if kind == "users" and isinstance(command, dict):
        result["exec"] = _normal_exec(command)
    return result


def _normal_exec(command: Object) -> Object:
    result = {name: value for name, value in command.items() if value not in (None, "")}
    result.setdefault("args", None)
    result.setdefault("env", None)
    result.setdefault("provideClusterInfo", False)
    if not str(result.get("apiVersion", "")).endswith("/v1"):
        result.setdefault("interactiveMode", "IfAvailable")
    return result


@contextmanager
def _locked(names: Sequence[str]) -> Iterator[None]:
    """Hold the lock files that kubectl itself holds while it writes."""
    locks = [name + ".lock" for name in sorted(name for name in names if name)]
    held: list[str] = []
    try:
        for lock in locks:
            _lock(lock)
            held.append(lock)
        yield
    finally:
        for lock in held:
            os.remove(lock)


def _lock(lock: str) -> None:
    os.makedirs(os.path.dirname(lock) or ".", mode=0o755, exist_ok=True)
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0))
        except FileExistsError:
            # another kubectl is writing, which takes a moment; one that died leaves its lock
            if time.monotonic() > deadline:
                raise PluginError(f"open {lock}: file exists") from None
            time.sleep(0.02)
        except OSError as error:
            raise PluginError(f"open {lock}: {(error.strerror or '').lower()}") from None
        else:
            return
