"""What a person gives to make a connection, read strictly: address, name, credential.

Pure. Whether a host may be reached, and what the platform says, is found out elsewhere.
"""

import re
from typing import Final
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from agentjobs.outbound.guard.host_patterns import bracket_ipv6, normalize_host
from agentjobs.problems import Problem

# The usual address of each; None: it is always somebody's own.
PLATFORMS: Final[dict[str, str | None]] = {
    "github": "https://github.com",
    "gitlab": "https://gitlab.com",
    "gitea": None,
}
MOST_URL_CHARACTERS = 500
MOST_TOKEN_CHARACTERS = 4_096
MOST_KEY_CHARACTERS = 32 * 1024

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_PATH = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
_API = re.compile(r"/api/v[134]$")
_PORTS = {"https": 443, "http": 80}
# A number, or the client identifier that GitHub shows beside it.
_APP_ID = re.compile(r"[1-9][0-9]{0,19}|Iv[A-Za-z0-9.]{4,60}")
_INSTALLATION_ID = re.compile(r"[1-9][0-9]{0,19}")


def checked_platform(platform: str) -> str:
    if platform not in PLATFORMS:
        known = ", ".join(PLATFORMS)
        raise Problem("invalid_platform", f"{platform!r} is no platform: name one of {known}.")
    return platform


def checked_name(name: str) -> str:
    # The identifiers of connections have an underscore, so that no name can be one.
    if not _NAME.fullmatch(name):
        raise Problem(
            "invalid_name",
            f"{name!r} cannot name a connection: use 1 to 63 lower-case letters, digits, and "
            "dots or hyphens inside.",
        )
    return name


def name_taken(name: str) -> Problem:
    return Problem(
        "name_taken", f"A connection named {name!r} exists already; choose another with --name."
    )


def checked_url(platform: str, url: str) -> str:
    """In one plain spelling, without a slash at its end; the platform's usual one for none."""
    url = url.strip()
    if not url:
        return _usual(platform)
    if len(url) > MOST_URL_CHARACTERS or not _VISIBLE.fullmatch(url):
        raise _bad_url("Name the address of the platform, such as https://git.example.com.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _bad_url("The address is not understood; copy it from a browser.") from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not url.lower().startswith(f"{scheme}://"):
        raise _bad_url("The address must start with https://.")
    if "@" in parts.netloc:
        raise _bad_url("The address must hold no credential: the token goes in on its own.")
    if "?" in url or "#" in url or "\\" in url:
        raise _bad_url("The address must hold no ?, # or backslash.")
    host = normalize_host(_without_port(parts.netloc))
    if host is None or "%" in host:
        raise _bad_url("The host of the address is not understood; copy it from a browser.")
    shown_port = "" if port in (None, _PORTS[scheme]) else f":{port}"
    return _same_place(f"{scheme}://{bracket_ipv6(host)}{shown_port}{_checked_path(parts.path)}")


def checked_installation(
    platform: str, app_id: str | None, installation_id: str | None
) -> tuple[str | None, str | None]:
    """Both for an app, which only GitHub has; neither for a token."""
    if not app_id and not installation_id:
        return None, None
    if platform != "github":
        raise _bad_app("Only GitHub has apps: connect this platform with a token.")
    if not app_id or not installation_id:
        raise _bad_app("A GitHub App has both: --app-id and --installation-id.")
    if not _APP_ID.fullmatch(app_id):
        raise _bad_app(f"{app_id!r} is no App ID: its settings page shows a number.")
    if not _INSTALLATION_ID.fullmatch(installation_id):
        raise _bad_app(
            f"{installation_id!r} is no installation ID: it is the number at the end of the "
            "address of the installation's settings page."
        )
    return app_id, installation_id


def checked_credential(kind: str, credential: str) -> None:
    if kind == "app":
        _check_private_key(credential)
        return
    if "-----BEGIN" in credential:
        raise _bad_credential(
            "This is a private key, not a token: an app is connected with --app-id, "
            "--installation-id and --private-key-file."
        )
    if not credential:
        raise _bad_credential("The token is empty; give it on standard input.")
    if len(credential) > MOST_TOKEN_CHARACTERS or not _VISIBLE.fullmatch(credential):
        raise _bad_credential(
            f"A token is one word of at most {MOST_TOKEN_CHARACTERS} ASCII characters; "
            "copy it once more."
        )


def _check_private_key(text: str) -> None:
    if len(text) > MOST_KEY_CHARACTERS or "-----BEGIN" not in text:
        raise _no_rsa_key("it is no PEM text")
    try:
        key = load_pem_private_key(text.encode(), password=None)
    except TypeError:
        raise _no_rsa_key("it is locked by a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        # The reason is left out: it may quote the key.
        raise _no_rsa_key("it cannot be read") from None
    if not isinstance(key, RSAPrivateKey):
        raise _no_rsa_key("it is of another kind")


def _usual(platform: str) -> str:
    usual = PLATFORMS[platform]
    if usual is None:
        raise _bad_url("Name the address of the platform with --url: it has no usual one.")
    return usual


def _checked_path(path: str) -> str:
    """Where a platform lies below its host; the address of its API means the platform."""
    path = _API.sub("", path.rstrip("/"))
    if not _PATH.fullmatch(path):
        raise _bad_url("The path of the address is not understood; copy it from a browser.")
    return path


def _same_place(url: str) -> str:
    """The API of github.com has a host of its own; people mean the platform by it."""
    return {"https://api.github.com": "https://github.com"}.get(url, url)


def _without_port(netloc: str) -> str:
    host, colon, port = netloc.rpartition(":")
    return host if colon and (port.isdecimal() or not port) else netloc


def _bad_url(reason: str) -> Problem:
    return Problem("invalid_url", reason)


def _bad_app(reason: str) -> Problem:
    return Problem("invalid_app", reason)


def _bad_credential(reason: str) -> Problem:
    return Problem("invalid_credential", reason)


def _no_rsa_key(why: str) -> Problem:
    return _bad_credential(
        f"The private key must be an RSA key in PEM form, and {why}: take the file that GitHub "
        "gave when the key was made."
    )
