"""TLS over a plain transport, by memory buffers.

uvloop's and asyncio's own TLS transports cost three times as much per message
(36 µs against 12 µs for a small question and answer, measured), so a connection
drives OpenSSL itself: what the socket brings goes into one buffer, what OpenSSL
wants to send comes out of another.

Client certificates.  kube-apiserver asks for one, completes the handshake
whatever it is shown, and answers 401 if it does not trust it; a foreign
certificate beside a good token does no harm.  Python's `ssl` knows only
"optional and verified", where a foreign or expired certificate breaks the
handshake with an alert no user understands.  So the verification callback of
OpenSSL is replaced by one that accepts, through ctypes, and the certificate is
left to the application to judge.  Where the library cannot be reached that way
(statically linked, another interpreter), "optional and verified" against
`client_ca_file` remains, and `judges_clients` says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pykcp.wire.settings import TLSSettings

_log = logging.getLogger(__name__)

_RECORD = 16384
_SMALL_RECORD = 448
"""With the head of a bytes object it fits into the small blocks of Python's allocator, which are
quicker to get than memory of malloc."""
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2: the suites allowed by HTTP/2 (RFC 9113, appendix A); all of TLS 1.3 are allowed."""

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

_VerifyCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def _accept(_store: int | None, _argument: int | None) -> int:
    return 1


_ACCEPT = _VerifyCallback(_accept)  # OpenSSL keeps only its address, so it must live for ever


def _leave_judging_to_application(context: ssl.SSLContext) -> bool:
    """Make OpenSSL accept every client certificate; False if that is not possible."""
    if sys.implementation.name != "cpython":
        return False
    try:
        import _ssl

        library = ctypes.CDLL(_ssl.__file__)
        set_callback = library.SSL_CTX_set_cert_verify_callback
        get_mode = library.SSL_CTX_get_verify_mode
    except (ImportError, OSError, AttributeError):
        return False
    # The first member of CPython's context object, ever since there is one.
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    get_mode.argtypes = [ctypes.c_void_p]
    get_mode.restype = ctypes.c_int
    if not pointer.value or get_mode(pointer) != ssl.CERT_OPTIONAL:
        return False
    set_callback.argtypes = [ctypes.c_void_p, _VerifyCallback, ctypes.c_void_p]
    set_callback.restype = None
    set_callback(pointer, _ACCEPT, None)
    return True


def make_context(settings: TLSSettings) -> ssl.SSLContext:
    """A server's context: HTTP/2 preferred.  Raises OSError for bad files."""
    context = _context(settings, settings.cert_file, settings.key_file)
    if settings.named:
        _choose_by_name(context, settings)
    return context


def _choose_by_name(context: ssl.SSLContext, settings: TLSSettings) -> None:
    """Show the certificate of the host name that the client asks for.

    A name that a certificate has counts more than one that a wildcard of it covers.
    """
    made = [(one, _context(settings, one.cert_file, one.key_file)) for one in settings.named]
    exact = {name: other for one, other in reversed(made) for name in one.names}

    def choose(session: ssl.SSLObject, host: str | None, _: ssl.SSLContext) -> None:
        if host is None:
            return
        host = host.lower()
        found = exact.get(host) or next((c for one, c in made if one.matches(host)), None)
        if found is not None:
            session.context = found

    context.sni_callback = choose


def _context(settings: TLSSettings, cert_file: str, key_file: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.min_version]
    context.set_ciphers(":".join(settings.ciphers) or _CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    # All that is left is good, so the client may choose what its machine does fastest.
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["h2", "http/1.1"])
    context.load_cert_chain(cert_file, key_file)
    if settings.request_client_certificate:
        _request_client_certificates(context, settings.client_ca_file)
    return context


def _request_client_certificates(context: ssl.SSLContext, client_ca_file: str | None) -> None:
    context.verify_mode = ssl.CERT_OPTIONAL
    if _leave_judging_to_application(context):
        return
    if client_ca_file is None:
        _log.warning(
            "client certificates cannot be requested without a client CA file on this platform"
        )
        context.verify_mode = ssl.CERT_NONE
        return
    _log.warning("client certificates not issued by %s will fail the handshake", client_ca_file)
    context.load_verify_locations(client_ca_file)


class ServingCertificate:
    """A context that follows its files: new connections get what is in them now."""

    def __init__(self, settings: TLSSettings) -> None:
        self._settings = settings
        self._checked_at = 0.0
        self._seen = self._look()
        self.context = make_context(settings)

    def refresh(self, now: float) -> None:
        """Reload if the files have changed; looked at only now and then."""
        if now - self._checked_at < self._settings.reload_interval:
            return
        self._checked_at = now
        try:
            seen = self._look()
            if seen != self._seen:
                self.context = make_context(self._settings)
                self._seen = seen
                _log.info("serving certificate %s reloaded", self._settings.cert_file)
        except OSError as error:  # ssl.SSLError is one: half-written files, a key of another
            _log.warning("serving certificate not reloaded: %s", error)

    def reload(self) -> None:
        """Read the files now.  Raises OSError and keeps the old ones if they are bad."""
        seen = self._look()
        self.context = make_context(self._settings)
        self._seen = seen

    def _look(self) -> tuple[tuple[int, int, int], ...]:
        settings = self._settings
        files = [settings.cert_file, settings.key_file]
        files += [file for one in settings.named for file in (one.cert_file, one.key_file)]
        found = (Path(file).stat() for file in files)
        return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in found)


class TLSSession:
    """The TLS of one connection: octets of the socket on one side, plain ones on the other.

    With a `server_name` it is the client's side, and `start` comes first.
    """

    __slots__ = (
        "_incoming",
        "_outgoing",
        "_read_record",
        "_room",
        "_session",
        "_write_records",
        "has_handshaken",
        "is_ended",
    )

    def __init__(self, context: ssl.SSLContext, server_name: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        # The methods of `ssl.SSLObject` only call these, which takes time for every record.
        inner: Any = self._session._sslobj  # type: ignore[attr-defined]
        self._read_record: Callable[[int], bytes] = inner.read
        self._write_records: Callable[[bytes], int] = inner.write
        self._room = _SMALL_RECORD
        self.has_handshaken = False
        self.is_ended = False
        """The other side has said that it will send no more."""

    def start(self) -> bytes:
        """The client's first octets."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._session.do_handshake()
        return self._outgoing.read()

    def receive(self, data: bytes) -> bytes:
        """Take octets from the socket, give what they hide.  Raises ssl.SSLError."""
        self._incoming.write(data)
        if not self.has_handshaken:
            try:
                self._session.do_handshake()
            except ssl.SSLWantReadError:
                return b""
            self.has_handshaken = True
        return self._read()

    def _read(self) -> bytes:
        session, incoming = self._session, self._incoming
        read, room = self._read_record, self._room
        pieces: list[bytes] = []
        is_cut = False
        try:
            while is_cut or incoming.pending:
                # A read takes a record or, if there is no room for it, the first part of it. Most
                # are small, and room for a large one costs more than reading a small one; but
                # records of long answers come one after the other.
                piece = read(room)
                is_cut = len(piece) == room and session.pending() > 0
                if not piece:
                    self.is_ended = True
                    break
                pieces.append(piece)
                room = _RECORD if is_cut or len(piece) > _SMALL_RECORD else _SMALL_RECORD
        except ssl.SSLWantReadError:
            pass  # part of a record
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        self._room = room
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def send(self, data: bytes) -> bytes:
        """What the socket is to send for that."""
        self._write_records(data)
        return self._outgoing.read()

    def take_output(self) -> bytes:
        """What TLS itself has to say: handshake, alerts, key updates."""
        return self._outgoing.read() if self._outgoing.pending else b""

    @property
    def has_output(self) -> bool:
        """Whether TLS itself has something to say."""
        return self._outgoing.pending > 0

    def close(self) -> bytes:
        """The closing alert."""
        with contextlib.suppress(ssl.SSLError):  # the client's own alert is not waited for
            self._session.unwrap()
        return self._outgoing.read()

    @property
    def protocol(self) -> str | None:
        return self._session.selected_alpn_protocol()

    @property
    def certificate(self) -> bytes | None:
        return self._session.getpeercert(binary_form=True)

    def intermediates(self) -> tuple[bytes, ...]:
        """What the client sent along with its certificate."""
        inner: Any = self._session._sslobj  # type: ignore[attr-defined]  # public from 3.13 on
        chain = inner.get_unverified_chain() or ()
        return tuple(ssl.PEM_cert_to_DER_cert(item.public_bytes()) for item in chain[1:])
