"""Validates what a person enters for a connection: address, name, credential.

Pure functions. Whether a host is allowed, and whether the platform accepts the credential, is
checked elsewhere.
"""

import re
from typing import Final
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from agentjobs_runtime.outbound.guard.host_patterns import bracket_ipv6, normalize_host
from agentjobs_runtime.problems import Problem

# The default address of each platform; None if it is always self-hosted.
PLATFORMS: Final[dict[str, str | None]] = {
    "github": "https://github.com",
    "gitlab": "https://gitlab.com",
    "gitea": None,
}
MAX_URL_CHARACTERS = 500
MAX_TOKEN_CHARACTERS = 4_096
MAX_KEY_CHARACTERS = 32 * 1024

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_PATH = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
_API = re.compile(r"/api/v[134]$")
_PORTS = {"https": 443, "http": 80}
# A number, or the client identifier that GitHub shows beside it.
_APP_ID = re.compile(r"[1-9][0-9]{0,19}|Iv[A-Za-z0-9.]{4,60}")
_INSTALLATION_ID = re.compile(r"[1-9][0-9]{0,19}")


def validate_platform(platform: str) -> str:
    if platform not in PLATFORMS:
        known = ", ".join(PLATFORMS)
        raise Problem(
            "invalid_platform", f"{platform!r} is not a supported platform; use one of {known}."
        )
    return platform


def validate_name(name: str) -> str:
    # IDs of connections contain an underscore, so no name can be mistaken for one.
    if not _NAME.fullmatch(name):
        raise Problem(
            "invalid_name",
            f"{name!r} is not a valid name: use 1 to 63 lower-case letters and digits, with dots "
            "or hyphens in between.",
        )
    return name


def name_taken(name: str) -> Problem:
    return Problem(
        "name_taken",
        f"A connection named {name!r} already exists; choose another name.",
    )


def validate_url(platform: str, url: str) -> str:
    """Normalize the URL, without a trailing slash; an empty one means the platform's default."""
    url = url.strip()
    if not url:
        return _default_url(platform)
    if len(url) > MAX_URL_CHARACTERS or not _VISIBLE.fullmatch(url):
        raise _invalid_url("Enter the address of the platform, such as https://git.example.com.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _invalid_url("The address is not a valid URL; copy it from a browser.") from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not url.lower().startswith(f"{scheme}://"):
        raise _invalid_url("The address must start with https://.")
    if "@" in parts.netloc:
        raise _invalid_url("The address must not contain a credential; enter the token separately.")
    if "?" in url or "#" in url or "\\" in url:
        raise _invalid_url("The address must not contain ?, # or a backslash.")
    host = normalize_host(_without_port(parts.netloc))
    if host is None or "%" in host:
        raise _invalid_url("The address has an invalid host name; copy it from a browser.")
    port_suffix = "" if port in (None, _PORTS[scheme]) else f":{port}"
    return _canonical(f"{scheme}://{bracket_ipv6(host)}{port_suffix}{_validate_path(parts.path)}")


def validate_installation(
    platform: str, app_id: str | None, installation_id: str | None
) -> tuple[str | None, str | None]:
    """Both IDs for a GitHub App, neither for a token."""
    if not app_id and not installation_id:
        return None, None
    if platform != "github":
        raise _invalid_app("Only GitHub supports apps; connect this platform with a token.")
    if not app_id or not installation_id:
        raise _invalid_app("A GitHub App needs both an App ID and an installation ID.")
    if not _APP_ID.fullmatch(app_id):
        raise _invalid_app(
            f"{app_id!r} is not an App ID; the app's settings page shows it as a number."
        )
    if not _INSTALLATION_ID.fullmatch(installation_id):
        raise _invalid_app(
            f"{installation_id!r} is not an installation ID: it is the number at the end of the "
            "URL of the installation's settings page."
        )
    return app_id, installation_id


def validate_credential(kind: str, credential: str) -> None:
    if kind == "app":
        _check_private_key(credential)
        return
    if "-----BEGIN" in credential:
        raise _invalid_credential(
            "This is a private key, not a token; to connect a GitHub App, enter its App ID, "
            "installation ID and private key."
        )
    if not credential:
        raise _invalid_credential("The token is empty.")
    if len(credential) > MAX_TOKEN_CHARACTERS or not _VISIBLE.fullmatch(credential):
        raise _invalid_credential(
            f"A token has at most {MAX_TOKEN_CHARACTERS} ASCII characters and no spaces; "
            "copy it again."
        )


def _check_private_key(text: str) -> None:
    if len(text) > MAX_KEY_CHARACTERS or "-----BEGIN" not in text:
        raise _invalid_rsa_key("it is not PEM text")
    try:
        key = load_pem_private_key(text.encode(), password=None)
    except TypeError:
        raise _invalid_rsa_key("it is protected by a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        # The exception is not shown: it may quote the key.
        raise _invalid_rsa_key("it cannot be read") from None
    if not isinstance(key, RSAPrivateKey):
        raise _invalid_rsa_key("it is another kind of key")


def _default_url(platform: str) -> str:
    url = PLATFORMS[platform]
    if url is None:
        raise _invalid_url("Enter the address of the platform, such as https://git.example.com.")
    return url


def _validate_path(path: str) -> str:
    """The path of the platform below its host; the path of its API is removed."""
    path = _API.sub("", path.rstrip("/"))
    if not _PATH.fullmatch(path):
        raise _invalid_url("The address has an invalid path; copy it from a browser.")
    return path


def _canonical(url: str) -> str:
    """The API of github.com has its own host; people who enter it mean github.com."""
    return {"https://api.github.com": "https://github.com"}.get(url, url)


def _without_port(netloc: str) -> str:
    host, colon, port = netloc.rpartition(":")
    return host if colon and (port.isdecimal() or not port) else netloc


def _invalid_url(reason: str) -> Problem:
    return Problem("invalid_url", reason)


def _invalid_app(reason: str) -> Problem:
    return Problem("invalid_app", reason)


def _invalid_credential(reason: str) -> Problem:
    return Problem("invalid_credential", reason)


def _invalid_rsa_key(why: str) -> Problem:
    return _invalid_credential(
        f"The private key must be an RSA key in PEM format, and {why}; use the file that GitHub "
        "offered for download when the key was generated."
    )
