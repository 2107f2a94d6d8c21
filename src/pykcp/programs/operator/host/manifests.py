"""A directory of manifests as the store of an installation."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pykcp.machinery.status import StatusError
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.compiled import CONFIG_MAP, SECRET
from pykcp.programs.operator.kinds.definitions import is_manifest, read_manifest
from pykcp.programs.operator.names import GROUP
from pykcp.programs.operator.records import ConfigRecord
from pykcp.types import Object

_SUFFIXES = (".yaml", ".yml", ".json")
DEFAULT_NAMESPACE = "default"


@dataclass
class Manifests:
    """What a directory says."""

    namespace: str = DEFAULT_NAMESPACE
    objects: list[Object] = field(default_factory=list)
    """With defaults."""
    records: list[ConfigRecord] = field(default_factory=list)
    """Secrets and ConfigMaps of the user."""
    ignored: list[str] = field(default_factory=list)
    """Objects of kinds that mean nothing here: `Issuer/selfsigned`."""
    files: dict[tuple[str, str], pathlib.Path] = field(default_factory=dict)
    """Where each object is from, by kind and name."""


def load_manifests(directory: pathlib.Path) -> Manifests:
    """Everything below a directory. Raises SettingsError, with a line for each problem."""
    found, problems = Manifests(), list[str]()
    namespaces: dict[str, str] = {}
    for path, number, document in _documents(directory, problems):
        where = f"{path}: document {number}"
        try:
            _add(found, namespaces, path, document)
        except StatusError as error:
            problems += [f"{where}: {text}" for text in _texts(document, error)]
        except (ValueError, TypeError, KeyError) as error:
            problems.append(f"{where}: {_name(document)}: {error}")
    if len(namespaces) > 1:
        listed = ", ".join(f"{name} ({path})" for name, path in sorted(namespaces.items()))
        problems.append(
            f"objects are in several namespaces, use a root directory for each: {listed}"
        )
    if problems:
        raise SettingsError("\n".join(problems))
    found.namespace = next(iter(namespaces), DEFAULT_NAMESPACE)
    return found


def _documents(
    directory: pathlib.Path, problems: list[str]
) -> Iterator[tuple[pathlib.Path, int, Any]]:
    import yaml

    paths = [directory] if directory.is_file() else sorted(directory.rglob("*"))
    if not directory.exists():
        raise SettingsError(f"{directory} does not exist")
    for path in paths:
        if path.suffix not in _SUFFIXES or not path.is_file():
            continue
        try:
            documents = list(yaml.safe_load_all(path.read_text()))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f" in line {mark.line + 1}" if mark is not None else ""
            problems.append(f"{path}: not YAML{line}: {getattr(error, 'problem', '')}")
            continue
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{path}: {error}")
            continue
        for number, document in enumerate(documents, 1):
            if document is not None:
                yield path, number, document


def _add(found: Manifests, namespaces: dict[str, str], path: pathlib.Path, document: Any) -> None:
    if (
        not isinstance(document, dict)
        or not isinstance(document.get("kind"), str)
        or not document.get("apiVersion")
    ):
        raise TypeError("apiVersion and kind are required")
    kind, version = document["kind"], str(document.get("apiVersion") or "")
    if kind == "List" and version == "v1":
        for item in document.get("items") or ():
            _add(found, namespaces, path, item)
        return
    if version == "v1" and kind in (SECRET, CONFIG_MAP):
        found.records.append(ConfigRecord.from_object(document))
        return
    if not is_manifest(document) and not version.startswith(f"{GROUP}/"):
        found.ignored.append(_name(document))
        return
    obj = read_manifest(document, DEFAULT_NAMESPACE)
    key = (obj["kind"], obj["metadata"]["name"])
    if key in found.files:
        raise ValueError(f"exists already in {found.files[key]}")
    namespaces.setdefault(obj["metadata"]["namespace"], str(path))
    found.files[key] = path
    found.objects.append(obj)


def _name(document: Any) -> str:
    if not isinstance(document, dict):
        return "not an object"
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    return f"{document.get('kind')}/{name}"


def _texts(document: Any, error: StatusError) -> Iterator[str]:
    """One line for each field that is wrong, with its path."""
    causes = [one for one in error.causes if one.field]
    if not causes:
        yield f"{_name(document)}: {error.message}"
    for cause in causes:
        yield f"{_name(document)}: {cause.field}: {cause.message}"
