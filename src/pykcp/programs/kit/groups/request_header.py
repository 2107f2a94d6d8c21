"""Identities that an authenticating proxy sends in headers."""

from __future__ import annotations

from pykcp.auth.authn.request_header import HeaderNames, RequestHeaders
from pykcp.auth.authn.x509 import CertificateVerifier
from pykcp.programs.kit.checks import ca_bundle
from pykcp.programs.kit.options import OptionGroup, option


class RequestHeaderOptions(OptionGroup):
    TITLE = "Request header authentication"

    requestheader_client_ca_file: str = option(
        "CA bundle (PEM) that certificates of authenticating proxies are verified with.",
        "",
        check=ca_bundle,
    )
    requestheader_allowed_names: tuple[str, ...] = option(
        "Common names of certificates that may send identities in headers. Empty: every certificate "
        "that --requestheader-client-ca-file verifies.",
        (),
    )
    requestheader_username_headers: tuple[str, ...] = option(
        "Headers that carry the user name.", ("X-Remote-User",)
    )
    requestheader_uid_headers: tuple[str, ...] = option(
        "Headers that carry the user's UID.", ("X-Remote-Uid",)
    )
    requestheader_group_headers: tuple[str, ...] = option(
        "Headers that carry the user's groups.", ("X-Remote-Group",)
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = option(
        "Prefixes of headers that carry extra attributes of the user.", ("X-Remote-Extra-",)
    )

    def authenticator(self) -> RequestHeaders | None:
        """None unless a CA is given: headers without one are never trusted."""
        if not self.requestheader_client_ca_file:
            return None
        names = HeaderNames.parse(
            self.requestheader_username_headers,
            self.requestheader_uid_headers,
            self.requestheader_group_headers,
            self.requestheader_extra_headers_prefix,
        )
        file = self.requestheader_client_ca_file
        verifier = CertificateVerifier.of_file(file, "request header CA")
        return RequestHeaders(verifier, self.requestheader_allowed_names, names)
