"""A certified OpenID provider in its own process, and a user who signs in there.

`tests/npm/provider.mjs` is the provider; `make test` installs its packages into `.npm-tests`.
"""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx

from tests.support.paths import PROJECT

_START_SECONDS = 60
_MAX_STEPS = 10
NPM_TESTS = PROJECT / ".npm-tests"
CALLBACK = "/sign-in/oidc/callback"
# A native client may be redirected to any loopback port; the port is not known in advance.
CLIENT: Mapping[str, Any] = {
    "client_id": "agentjobs",
    # Has characters that must be encoded in a header.
    "client_secret": "s3cret+with/odd%3Acharacters: all of them",
    "application_type": "native",
    "redirect_uris": [f"http://127.0.0.1{CALLBACK}"],
}
ADA: Mapping[str, Any] = {
    "sub": "ada-1",
    "email": "ada@example.com",
    "email_verified": True,
    "name": "Ada",
}


@dataclass(frozen=True)
class Provider:
    issuer: str
    process: "subprocess.Popen[str]"


@contextmanager
def openid_provider(
    users: Sequence[Mapping[str, Any]] = (ADA,), clients: Sequence[Mapping[str, Any]] = (CLIENT,)
) -> Iterator[Provider]:
    """`clients` are OpenID Connect client metadata; provider.mjs describes `users`."""
    configuration = {"modules": str(NPM_TESTS), "clients": list(clients), "users": list(users)}
    process = subprocess.Popen(
        ["node", str(PROJECT / "tests" / "npm" / "provider.mjs"), json.dumps(configuration)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Provider(_first_line(process), process)
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def sign_in_at(url: str, email: str) -> dict[str, str]:
    """Sign in like a browser, from the URL of `begin` to the parameters of the callback."""
    return _follow_redirects(url, {"email": email})


def cancel_at(url: str) -> dict[str, str]:
    return _follow_redirects(url, {"cancel": "1"})


def _follow_redirects(url: str, form: Mapping[str, str]) -> dict[str, str]:
    with httpx.Client(follow_redirects=False, trust_env=False) as browser:
        response = browser.get(url)
        # The form, its submission and the redirects take a few requests.
        for _ in range(_MAX_STEPS):
            if response.status_code == 200:
                assert "<form" in response.text, response.text
                response = browser.post(response.url, data=dict(form))
            assert response.is_redirect, f"{response.url}: {response.status_code}: {response.text}"
            location = urljoin(str(response.url), response.headers["location"])
            if urlsplit(location).path.endswith(CALLBACK):
                return dict(parse_qsl(urlsplit(location).query))
            response = browser.get(location)
    raise AssertionError(f"the provider redirects in a loop: {response.url}")


def _first_line(process: "subprocess.Popen[str]") -> str:
    """The provider's URL; a provider that prints nothing is terminated, which ends the read."""
    assert process.stdout is not None
    start_timer = threading.Timer(_START_SECONDS, process.kill)
    start_timer.start()
    try:
        line = process.stdout.readline().strip()
    finally:
        start_timer.cancel()
    assert line.startswith("http://"), "the provider did not start; does .npm-tests exist?"
    return line
