"""Checks of a single option: each names the flag and says what is expected."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from pykcp.programs.kit.errors import USER_ERRORS, described

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


def loaded_by(load: Callable[[str], object]) -> Check:
    """Files that this function can load: it raises one of USER_ERRORS for a file that is wrong."""

    def check(flag: str, value: str | tuple[str, ...]) -> Iterator[str]:
        for path in (value,) if isinstance(value, str) else value:
            if not path:
                continue
            try:
                load(path)
            except FileNotFoundError:
                yield f"--{flag}: no such file: {path}"
            except OSError as error:
                yield f"--{flag}: cannot read {path}: {error.strerror or error}"
            except UnicodeDecodeError:
                yield f"--{flag}: {path} is not text in UTF-8"
            except USER_ERRORS as error:
                yield f"--{flag}: {described(error)}"

    return check


def kubeconfig_file(flag: str, path: str) -> Iterator[str]:
    yield from kubeconfig_problems(flag, path)


def kubeconfig_problems(flag: str, path: str, context: str = "") -> Iterator[str]:
    """A kubeconfig with this context; its current one if no name is given."""
    from pykcp.clients.kubeconfig import load_endpoint

    yield from loaded_by(lambda path: load_endpoint(path, context))(flag, path)


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


def directory(flag: str, value: pathlib.Path | str) -> Iterator[str]:
    """A directory that exists and can be written to, or that can be made."""
    import os

    nearest = pathlib.Path(value).absolute()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        yield f"--{flag}: {nearest} is not a directory"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        yield f"--{flag}: cannot write to {nearest}"


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
    """One of these words; the empty one, which stands for none, is not listed."""
    named = [one for one in allowed if one]
    words = f"{', '.join(named[:-1])} or {named[-1]}" if named[1:] else "".join(named)

    def check(flag: str, value: str) -> Iterator[str]:
        if value not in allowed:
            yield f"--{flag} {value!r} must be {words}"

    return check


def key_pairs(cert_flag: str, certificate: str, key_flag: str, key: str) -> Iterator[str]:
    """Two flags for a certificate and its key, which are given together."""
    if bool(certificate) != bool(key):
        yield f"--{cert_flag} and --{key_flag} must be given together"
    elif certificate:
        yield from key_pair(cert_flag, certificate, key, key_flag)


def key_pair(flag: str, certificate: str, key: str, key_flag: str = "") -> Iterator[str]:
    """A certificate (PEM) and the key that belongs to it."""
    for name, path in ((flag, certificate), (key_flag or flag, key)):
        if problem := unreadable(path):
            yield f"--{name}: {problem}"
            return
    import ssl

    try:
        # an encrypted key must not make OpenSSL ask for its password at the terminal
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        what = f"{certificate} and {key} are not a certificate and its key (PEM)"
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            what = f"{key} is not the key of {certificate}"
        yield f"--{flag}: {what}"


def plain_address(flag: str, text: str) -> Iterator[str]:
    """`:8081`, an IP address with a port, or 0 for none."""
    if text not in ("", "0") and not text.rpartition(":")[2].isdigit():
        yield f'--{flag}: "{text}" is not an address, use :8081, or 0 for none'
