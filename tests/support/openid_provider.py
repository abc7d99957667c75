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
_MOST_STEPS = 10
NPM_TESTS = PROJECT / ".npm-tests"
CALLBACK = "/sign-in/oidc/callback"
# A native client may come back to any port of loopback, which is not known before a test runs.
CLIENT: Mapping[str, Any] = {
    "client_id": "agentjobs",
    # Of characters that are written in another way in a header.
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
    """Clients are metadata of OpenID Connect; see provider.mjs for what users have."""
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
    return _walk(url, {"email": email})


def cancel_at(url: str) -> dict[str, str]:
    return _walk(url, {"cancel": "1"})


def _walk(url: str, form: Mapping[str, str]) -> dict[str, str]:
    with httpx.Client(follow_redirects=False, trust_env=False) as browser:
        answer = browser.get(url)
        # To the form, through it, and back: a few steps.
        for _ in range(_MOST_STEPS):
            if answer.status_code == 200:
                assert "<form" in answer.text, answer.text
                answer = browser.post(answer.url, data=dict(form))
            assert answer.is_redirect, f"{answer.url}: {answer.status_code}: {answer.text}"
            to = urljoin(str(answer.url), answer.headers["location"])
            if urlsplit(to).path.endswith(CALLBACK):
                return dict(parse_qsl(urlsplit(to).query))
            answer = browser.get(to)
    raise AssertionError(f"the provider leads around in a circle: {answer.url}")


def _first_line(process: "subprocess.Popen[str]") -> str:
    """The provider's URL; a provider that prints nothing is terminated, which ends the read."""
    assert process.stdout is not None
    too_late = threading.Timer(_START_SECONDS, process.kill)
    too_late.start()
    try:
        line = process.stdout.readline().strip()
    finally:
        too_late.cancel()
    assert line.startswith("http://"), "the provider did not start; does .npm-tests exist?"
    return line
