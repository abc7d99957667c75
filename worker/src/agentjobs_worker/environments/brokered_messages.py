"""What of a request reaches a brokered host, and what of its response reaches the sandbox.

A host may repeat the credential in a response, so every form of it is masked there.
"""

import base64
import binascii
from collections.abc import Iterator

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from agentjobs_runtime.environments.brokered_host import BrokeredHost, CredentialHeader
from agentjobs_runtime.redaction.secret_forms import encode_forms
from agentjobs_runtime.sandbox_http.key_filter import Replacer

MIN_MASKED_LENGTH = 8
"""Shorter values may occur in any file."""

# No others: some servers let a header change the method, the path or the user. Without `Range` and
# `Accept-Encoding` no response shows the credential in parts or compressed.
_SERVER_HEADERS = frozenset(
    {
        *("accept", "accept-language", "cache-control", "content-encoding", "content-type"),
        *("git-protocol", "if-match", "if-modified-since", "if-none-match", "if-unmodified-since"),
        *("pragma", "user-agent"),
    }
)
_DROPPED_HEADERS = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade", "accept-ranges", "alt-svc", "set-cookie", "set-cookie2"),
        *("strict-transport-security", "www-authenticate"),
    }
)
_DEFAULT_PORTS = {("http", 80), ("", None)}


def server_headers(request: web.BaseRequest, credential: CredentialHeader) -> CIMultiDict[str]:
    passed = [
        (name, value) for name, value in request.headers.items() if name.lower() in _SERVER_HEADERS
    ]
    headers = CIMultiDict(passed)
    headers["Accept-Encoding"] = "identity"
    if request.body_exists and request.content_length is not None:
        headers["Content-Length"] = str(request.content_length)
    headers[credential.name] = credential.value
    return headers


class BrokeredResponse:
    """`address` is where the sandbox reaches the host."""

    def __init__(
        self, host: BrokeredHost, address: str, target: str, answer: aiohttp.ClientResponse
    ) -> None:
        self._url = URL(host.origin)
        self._address = address
        masked = sorted(_masked_forms(host), key=len, reverse=True)
        self._replacers = [Replacer(form, b"*" * len(form)) for form in masked]
        links = _has_links(host, target, answer.content_type)
        self.headers = self._convert_headers(answer, has_length=not links)
        if links:
            old, new = f"{host.origin}/", f"http://{address}/"
            self._replacers.append(Replacer(old.encode(), new.encode()))

    def feed(self, data: bytes) -> bytes:
        for replacer in self._replacers:
            data = replacer.feed(data)
        return data

    def end(self) -> bytes:
        data = b""
        for replacer in self._replacers:
            data = replacer.feed(data) + replacer.end()
        return data

    def _convert_headers(
        self, answer: aiohttp.ClientResponse, *, has_length: bool
    ) -> CIMultiDict[str]:
        headers: CIMultiDict[str] = CIMultiDict()
        for name, value in answer.headers.items():
            lowered = name.lower()
            if lowered in _DROPPED_HEADERS or (lowered == "content-length" and not has_length):
                continue
            local = self._localize(value) if lowered == "location" else value
            headers.add(name, self._mask(local))
        return headers

    def _mask(self, text: str) -> str:
        data = text.encode("utf-8", "surrogateescape")
        return (self.feed(data) + self.end()).decode("utf-8", "surrogateescape")

    def _localize(self, location: str) -> str:
        """A redirect on the same host leads to the sandbox's port, any other stays as it is."""
        try:
            url = URL(location, encoded=True)
        except ValueError:
            return location
        # Behind a proxy that adds TLS, servers often name themselves by http.
        same = {("https", self._url.port)} | (
            _DEFAULT_PORTS if self._url.is_default_port() else set()
        )
        if url.host != self._url.host or (url.scheme, url.port) not in same:
            return location
        fragment = f"#{url.raw_fragment}" if url.raw_fragment else ""
        return f"http://{self._address}{url.raw_path_qs}{fragment}"


def _has_links(host: BrokeredHost, target: str, content_type: str) -> bool:
    """Whether the package manager follows the full URLs in this response."""
    if host.kind == "pip":
        return content_type.endswith(("html", "json"))
    return host.kind == "cargo" and target.endswith("/config.json")


def _masked_forms(host: BrokeredHost) -> set[bytes]:
    values = [host.secret, *_decoded_password(host)]
    return {form for form in encode_forms(values) if len(form) >= MIN_MASKED_LENGTH}


def _decoded_password(host: BrokeredHost) -> Iterator[str]:
    credential = host.credential
    scheme, _, value = credential.value.partition(" ") if credential else ("", "", "")
    if scheme.lower() == "basic":
        try:
            yield base64.b64decode(value).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return
