"""How both clients reach the service: address, credentials, TLS, and what went wrong with them."""

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpx

from agentjobs_client.errors import ClientError, ServiceUnreachable, TlsFailed, UnexpectedAnswer
from agentjobs_client.version import __version__


def normalize_base_url(base_url: str) -> str:
    """The base URL with its version segment, which callers may omit."""
    stem = base_url.strip().rstrip("/")
    try:
        url = httpx.URL(stem)
        is_valid = (
            url.scheme in {"http", "https"}
            and bool(url.host)
            and (url.port is None or 0 < url.port < 65_536)
            and not (url.userinfo or url.query or url.fragment)
        )
    except (httpx.InvalidURL, UnicodeError):
        is_valid = False
    if not is_valid:
        # It may contain a password.
        shown = repr(base_url) if "@" not in base_url else "the address"
        raise ClientError(f"{shown} is not a valid base URL; use the form http://…/v1")
    return stem if stem.endswith("/v1") else f"{stem}/v1"


def needs_certificates(base_url: str) -> bool:
    """Loading them takes most of the time that it takes to create a client."""
    return httpx.URL(base_url).scheme != "http"


def from_environment(environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Base URL and key from AGENTJOBS_URL and AGENTJOBS_API_KEY."""
    environ = os.environ if environ is None else environ
    base_url, api_key = environ.get("AGENTJOBS_URL"), environ.get("AGENTJOBS_API_KEY")
    if not base_url:
        raise ClientError("set AGENTJOBS_URL to the address of the service, such as http://…/v1")
    if not api_key:
        raise ClientError("set AGENTJOBS_API_KEY to a key from `agentjobs keys create`")
    return base_url, api_key


def http_settings(base_url: str, api_key: str, ca_file: str | os.PathLike[str] | None) -> Any:
    """The arguments of httpx's clients."""
    url = normalize_base_url(base_url)
    return {"base_url": url, "headers": _headers(api_key), "verify": _verification(url, ca_file)}


def _headers(api_key: str) -> dict[str, str]:
    if not api_key.isascii() or not api_key.isprintable():
        raise ClientError("the API key contains invalid characters; check that it was copied whole")
    return {
        "Authorization": f"Bearer {api_key}",
        "User-Agent": f"agentjobs-client/{__version__}",
    }


def _verification(base_url: str, ca_file: str | os.PathLike[str] | None) -> ssl.SSLContext | bool:
    if not needs_certificates(base_url):
        return False
    source = os.environ.get("SSL_CERT_FILE") or "the certificates of this machine"
    try:
        context = httpx.create_ssl_context()
        if further := ca_file or os.environ.get("AGENTJOBS_CA_FILE"):
            source = str(further)
            context.load_verify_locations(source)
    except (ssl.SSLError, ValueError) as error:
        # OpenSSL's own words name a line of its source.
        reason = "it has none in PEM format"
        raise ClientError(f"{source}: no certificates could be read: {reason}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ClientError(f"{source}: no certificates could be read: {reason}") from error
    return context


@contextmanager
def explained_settings() -> Iterator[None]:
    """Translates what httpx raises for proxies of the environment that it cannot use."""
    try:
        yield
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        message = f"the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used: {error}"
        raise ClientError(message) from error


@contextmanager
def explained(base_url: httpx.URL) -> Iterator[None]:
    """Translates what httpx raises while a call is sent."""
    try:
        yield
    except httpx.RequestError as error:
        raise _explain(error, base_url) from error
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ClientError(f"{base_url} is not a valid address: {error}") from error
    except httpx.StreamError as error:
        raise ServiceUnreachable(f"{base_url} cannot be reached: {error}") from error


def _explain(error: httpx.RequestError, base_url: httpx.URL) -> ClientError:
    reason = str(error).rstrip(".") or type(error).__name__
    if isinstance(error, httpx.DecodingError):
        return UnexpectedAnswer(f"{base_url} returned a body that cannot be decoded: {reason}")
    if hint := _tls_hint(reason, base_url):
        return TlsFailed(f"{base_url} cannot be reached: {hint}")
    where = f"{base_url} cannot be reached{_proxy_hint(base_url)}"
    if "without sending complete message body" in reason:
        return ServiceUnreachable(f"{where}: the response was cut off ({reason})")
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError) and base_url.scheme == "http":
        reason += "; if it uses TLS, the address must start with https://"
    return ServiceUnreachable(f"{where}: {reason}")


def _proxy_hint(base_url: httpx.URL) -> str:
    proxies = getproxies()
    proxy = proxies.get(base_url.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(base_url.host):
        return ""
    # Without the credentials.
    return f" through the proxy {proxy.rpartition('@')[2]}"


def _tls_hint(reason: str, base_url: httpx.URL) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        problem = reason.partition("certificate verify failed: ")[2].partition(" (_ssl")[0]
        if "expired" in problem or "not yet valid" in problem:
            return f"{problem}; check the clock of this machine, then the service's certificate"
        if "mismatch" in problem or "not valid for" in problem:
            return f"{problem}; use the name that the certificate was issued for"
        return (
            f"its certificate is not trusted ({problem}); name the authority that issued it in "
            "`ca_file`, AGENTJOBS_CA_FILE or `agentjobs login --ca-file`"
        )
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason or "record layer" in reason:
        return f"it does not use TLS on this port; try http://{base_url.netloc.decode()}"
    # Anything else may be temporary.
    return ""
