"""Checks of a single option: each names the flag and says what is expected."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

Check = Callable[[str, Any], Iterator[str]]
"""The flag's name and its value; everything that is wrong with it."""


def readable_file(flag: str, value: str | tuple[str, ...]) -> Iterator[str]:
    """One file, or several; an empty name stands for none."""
    for path in (value,) if isinstance(value, str) else value:
        if path and (problem := unreadable(path)):
            yield f"--{flag}: {problem}"


def unreadable(path: str) -> str:
    """Why a file cannot be read; empty if it can."""
    try:
        with pathlib.Path(path).open("rb"):
            return ""
    except FileNotFoundError:
        return f"no such file: {path}"
    except OSError as error:
        return f"cannot read {path}: {error.strerror or error}"


def ca_bundle(flag: str, path: str) -> Iterator[str]:
    """A PEM file with at least one certificate."""
    if not path:
        return
    if problem := unreadable(path):
        yield f"--{flag}: {problem}"
        return
    # OpenSSL's own reading: the start does not wait for the import of a certificate library.
    import ssl

    text = pathlib.Path(path).read_bytes().decode("ascii", "replace")
    begin = text.find("-----BEGIN CERTIFICATE-----")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text[max(begin, 0) :])
    except (ssl.SSLError, ValueError):
        yield f"--{flag}: {path} does not contain any valid certificates (PEM)"


def directory(flag: str, value: pathlib.Path) -> Iterator[str]:
    """A directory that exists and can be written to, or that can be made."""
    import os

    if not str(value) or str(value) == ".":
        yield f"--{flag} must not be empty"
        return
    nearest = value.absolute()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        yield f"--{flag}: {nearest} is not a directory"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        yield f"--{flag}: cannot write to {nearest}: Permission denied"


def positive(flag: str, value: float) -> Iterator[str]:
    if value <= 0:
        yield f"--{flag} must be greater than 0"


def not_negative(flag: str, value: float) -> Iterator[str]:
    if value < 0:
        yield f"--{flag} must not be negative"


def https_url(flag: str, url: str) -> Iterator[str]:
    if url and (urlsplit(url).scheme != "https" or not urlsplit(url).netloc):
        yield f"--{flag} {url!r} must be an https URL"


def choice(*allowed: str) -> Check:
    words = f"{', '.join(allowed[:-1])} or {allowed[-1]}"

    def check(flag: str, value: str) -> Iterator[str]:
        if value not in allowed:
            yield f"--{flag} {value!r} must be {words}"

    return check


def pair(first: str, one: str, second: str, other: str) -> Iterator[str]:
    """Two flags that mean something only together."""
    if bool(one) != bool(other):
        yield f"--{first} and --{second} must be given together"
