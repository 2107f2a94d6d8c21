"""A file of flags: `--config FILE`, YAML or JSON, with the names of flags as keys.

    secure-port: 6443
    batteries-included: [workspace-types, admin]
    feature-gates: {CacheAPIs: true}

Flags of the command line win over the file. Every problem names the file and the key.
"""

from __future__ import annotations

import pathlib
from typing import Any

from pykcp.programs.kit.flags import REFUSED, Flag, FlagError, FlagSet

CONFIG = Flag(
    "config", "string", "", "File with flags: YAML whose keys are the names of flags without `--`."
)
_LISTS = ("strings", "list")
_MAPS = ("map", "pair")


def read_config(path: str, flags: FlagSet, given_by: str = CONFIG.name) -> dict[str, Any]:
    """The values of the flags that a file has. Raises FlagError with all problems.

    `given_by`: the flag that names the file.
    """
    content = _load(path, given_by)
    known = {flag.name: flag for flag in flags.flags}
    given: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in content.items():
        name = str(key).replace("_", "-")
        flag = known.get(name)
        if flag is None or name == CONFIG.name:
            hint = flags.similar(name)
            problems.append(f"{path}: {key}: there is no flag of this name{hint}")
            continue
        if name in given:
            problems.append(f"{path}: {key}: is given twice")
            continue
        try:
            given[name] = _value(flag, value)
        except FlagError as error:
            problems.append(f"{path}: {key}: {error}")
    if problems:
        raise FlagError("\n".join(problems))
    return given


def _load(path: str, given_by: str) -> dict[Any, Any]:
    import yaml

    try:
        content = yaml.safe_load(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FlagError(f"--{given_by}: {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FlagError(f"--{given_by}: {path}: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise FlagError(f"--{given_by}: {path}: must have the names of flags as keys")
    return content


def _value(flag: Flag, value: Any) -> Any:
    if flag.effect == REFUSED:
        raise FlagError("is not supported yet by this version")
    if flag.kind in _LISTS and isinstance(value, list):
        return [_text(item) for item in value]
    if flag.kind in _MAPS and isinstance(value, dict):
        return {str(key): _text(item) for key, item in value.items()}
    return flag.parse(_text(value))


def _text(value: Any) -> str:
    """A value as it would be written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, (dict, list)):
        raise FlagError("must be a single value")
    return str(value)
