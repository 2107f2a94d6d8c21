"""Why a request that this process sent has no answer, in the words of Go's clients.

People search for those words, and they hold nothing that the other side sent.
"""

from __future__ import annotations

import errno
import socket
import ssl

_TLS_REASONS = {
    "WRONG_VERSION_NUMBER": "first record does not look like a TLS handshake",
    "KEY_VALUES_MISMATCH": "private key does not match public key",
    "UNEXPECTED_EOF_WHILE_READING": "the connection ended within the handshake",
}


class SendFailed(Exception):
    """There is no answer; the text says why."""

    is_unprocessed = False
    """The server has certainly not acted on the request: it may be sent again."""
    is_lost = False
    """The connection ended before an answer began; a server may close an idle one at any time."""


class NotAllowed(SendFailed):
    """The operator does not allow the destination."""


class NotProcessed(SendFailed):
    """The server did not take the request: it is going away, or has enough of them."""

    is_unprocessed = True


class LostConnection(SendFailed):
    """The connection ended before the answer began."""

    is_lost = True


class TimedOut(SendFailed):
    def __init__(self) -> None:
        super().__init__("context deadline exceeded")


def dial_problem(error: OSError, host: str, port: int) -> str:
    """Why no connection could be made."""
    address = f"{host}:{port}"
    if error.errno == errno.ECONNREFUSED:
        return f"dial tcp {address}: connect: connection refused"
    if error.errno == errno.EHOSTUNREACH:
        return f"dial tcp {address}: connect: no route to host"
    if error.errno == errno.ENETUNREACH:
        return f"dial tcp {address}: connect: network is unreachable"
    if isinstance(error, ssl.SSLError):
        return tls_problem(error)
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {host}: no such host"
    return f"dial tcp {address}: {error}"


def tls_problem(error: ssl.SSLError) -> str:
    """Why there is no connection with TLS, without the line of C that the error names."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return certificate_problem(error)
    reason = error.reason or "HANDSHAKE_FAILED"
    if reason in _TLS_REASONS:
        return f"tls: {_TLS_REASONS[reason]}"
    sender, alert, said = reason.partition("_ALERT_")
    words = (said if alert else sender).lower().replace("_", " ")
    return f"remote error: tls: {words}" if alert else f"tls: {words}"


def certificate_problem(cause: Exception) -> str:
    """Why a server's certificate is not trusted."""
    said = getattr(cause, "verify_message", "") or str(cause)
    lowered = said.lower()
    if "issuer" in lowered or "self-signed" in lowered or "self signed" in lowered:
        why = "certificate signed by unknown authority"
    elif "expired" in lowered:
        why = "certificate has expired or is not yet valid"
    else:
        why = said
    return f"tls: failed to verify certificate: x509: {why}"
