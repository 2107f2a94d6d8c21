"""`kcp get`, `describe`, `apply` and `delete`: the objects of an installation, without an API server."""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING, Any

from pykcp.cli.operate.words import Given, HostCommand
from pykcp.programs.kit.flags import Flag

if TYPE_CHECKING:
    from pykcp.programs.operator.host.layout import HostFiles
    from pykcp.types import Object

_FILENAME = Flag("filename", "string", "", "File of manifests; - reads standard input.")


def _get(given: Given) -> int:
    rows = [("KIND", "NAME", "PHASE", "ADDRESS")]
    for one in _chosen(given):
        status = one["status"]
        addresses = ",".join(status.get("addresses") or ())
        rows.append((one["kind"], one["name"], status.get("phase", ""), addresses))
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    for row in rows:
        print(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        )
    return 0


def _describe(given: Given) -> int:
    import yaml

    from pykcp.programs.operator.host.manifests import load_manifests

    _, choices = _files(given)
    specs = {
        (obj["kind"], obj["metadata"]["name"]): obj
        for obj in load_manifests(pathlib.Path(choices.manifests)).objects
    }
    for one in _chosen(given):
        obj = specs.get((one["kind"], one["name"]), {})
        print(yaml.safe_dump({**obj, "status": one["status"]}, sort_keys=False), end="---\n")
    return 0


def _chosen(given: Given) -> list[Object]:
    """Those of a kind and name, or `kind/name`; all if none is given. Raises SettingsError."""
    from pykcp.cli.operate.status import read_status
    from pykcp.programs.kit.errors import SettingsError

    kind, name = _named(given.words)
    status, _ = read_status(given.root)
    found = [
        one
        for one in status["objects"]
        if (not kind or _is_kind(one["kind"], kind)) and (not name or one["name"] == name)
    ]
    if not found and (kind or name):
        raise SettingsError(f"{'/'.join(w for w in (kind, name) if w)} not found")
    return found


def _named(words: list[str]) -> tuple[str, str]:
    if not words:
        return "", ""
    kind, _, name = words[0].partition("/")
    return kind, name or (words[1] if len(words) > 1 else "")


def _is_kind(kind: str, word: str) -> bool:
    from pykcp.programs.operator.names import KINDS

    plural = KINDS[kind].resource if kind in KINDS else ""
    return word.lower() in (kind.lower(), plural)


def _files(given: Given) -> tuple[HostFiles, Any]:
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.host.layout import HostFiles

    files = HostFiles(given.root)
    choices = files.choices()
    if choices is None or not choices.manifests:
        raise SettingsError(f"there is no installation in {given.root}; begin one with: kcp up")
    return files, choices


# -- changes -----------------------------------------------------------------------------------


def _apply(given: Given) -> int:
    """Objects are written to the directory of manifests, and replace those of the same name."""
    import yaml

    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.host.manifests import load_manifests

    _, choices = _files(given)
    source = given.flags["filename"]
    if not source:
        raise SettingsError("--filename is required")
    text = sys.stdin.read() if source == "-" else pathlib.Path(source).read_text()
    try:
        documents = [one for one in yaml.safe_load_all(text) if one]
    except yaml.YAMLError as error:
        raise SettingsError(f"{source}: not YAML: {error}") from None
    before = load_manifests(pathlib.Path(choices.manifests)).files
    with _restored(choices.manifests) as directory:
        for document in documents:
            _put(directory, before, document)
        load_manifests(directory)
    return _changed(given)


def _put(
    directory: pathlib.Path, before: dict[tuple[str, str], pathlib.Path], document: Any
) -> None:
    import yaml

    from pykcp.auth.files import write_private
    from pykcp.programs.kit.errors import SettingsError

    if not isinstance(document, dict) or not (document.get("metadata") or {}).get("name"):
        raise SettingsError("each object must have kind and metadata.name")
    key = (str(document.get("kind")), str(document["metadata"]["name"]))
    if key in before:
        _remove(before[key], key)
    path = directory / f"{key[0].lower()}-{key[1]}.yaml"
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())
    print(f"{key[0]}/{key[1]} {'configured' if key in before else 'created'}")


def _remove(path: pathlib.Path, key: tuple[str, str]) -> None:
    """Take an object out of a file of manifests."""
    import yaml

    from pykcp.auth.files import write_private

    kept = [
        one
        for one in yaml.safe_load_all(path.read_text())
        if one and (one.get("kind"), (one.get("metadata") or {}).get("name")) != key
    ]
    if kept:
        write_private(path, yaml.safe_dump_all(kept, sort_keys=False).encode())
    else:
        path.unlink()


def _delete(given: Given) -> int:
    from pykcp.programs.kit.errors import SettingsError
    from pykcp.programs.operator.host.manifests import load_manifests

    _, choices = _files(given)
    kind, name = _named(given.words)
    known = load_manifests(pathlib.Path(choices.manifests)).files
    found = [key for key in known if _is_kind(key[0], kind) and key[1] == name]
    if not found:
        raise SettingsError(f"{kind}/{name} not found")
    with _restored(choices.manifests):
        _remove(known[found[0]], found[0])
    print(f"{found[0][0]}/{name} deleted")
    return _changed(given)


class _restored:  # noqa: N801  # a context
    """A directory of manifests that is as it was before, if a change of it fails."""

    def __init__(self, path: str) -> None:
        from pykcp.programs.kit.errors import SettingsError

        self._directory = pathlib.Path(path)
        if not self._directory.is_dir():
            raise SettingsError(f"{path} is not a directory: edit it, and call kcp up")
        self._before = {
            one: one.read_bytes() for one in self._directory.rglob("*") if one.is_file()
        }

    def __enter__(self) -> pathlib.Path:
        return self._directory

    def __exit__(self, kind: object, *rest: object) -> None:
        from pykcp.auth.files import write_private

        if kind is None:
            return
        for path in self._directory.rglob("*"):
            if path.is_file() and path not in self._before:
                path.unlink()
        for path, content in self._before.items():
            if not path.exists() or path.read_bytes() != content:
                write_private(path, content)


def _changed(given: Given) -> int:
    from pykcp.programs.operator.host.control import NotRunning, ask

    try:
        for _ in ask(given.root, "apply"):
            pass
    except NotRunning:
        print("no supervisor is running: this takes effect with the next kcp up")
    return 0


_KIND = "KIND is one of rootshard, shard, frontproxy, cacheserver, virtualworkspace, kubeconfig.\n"
GET = HostCommand(
    f"List the objects of the installation.\n\nUsage:\n  kcp get [KIND [NAME]]\n\n{_KIND}",
    _get,
    most=2,
)
DESCRIBE = HostCommand(
    f"Print objects with their status.\n\nUsage:\n  kcp describe [KIND [NAME]]\n\n{_KIND}",
    _describe,
    most=2,
)
APPLY = HostCommand(
    "Add or replace objects in the directory of manifests, and apply them.\n\n"
    "Usage:\n  kcp apply -f FILE\n",
    _apply,
    (_FILENAME,),
    {"f": "filename"},
    most=0,
)
DELETE = HostCommand(
    f"Remove an object from the directory of manifests, and stop its programs.\n\n"
    f"Usage:\n  kcp delete KIND NAME\n\n{_KIND}",
    _delete,
    least=1,
    most=2,
)
