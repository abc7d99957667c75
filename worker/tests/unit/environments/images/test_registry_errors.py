"""What skopeo's failures become: an outage, or an error that says what to do."""

import pytest

from agentjobs_runtime.environments.images.errors import ImageError, RegistryUnavailable
from agentjobs_runtime.environments.images.reference import parse_reference
from agentjobs_worker.environments.images.registry_errors import explain_failure
from agentjobs_worker.sandbox.protocol import SandboxReport

REFERENCE = parse_reference("registry.example.com/acme/build:12")


def explain(
    message: str = "", *refusals: str, has_credential: bool = False, **changes: object
) -> ImageError:
    fields = {"exit_code": 1, "timed_out": False, "duration_ms": 1}
    line = f'time="2026-01-01T00:00:00Z" level=fatal msg="{message}"'
    report = SandboxReport(**{**fields, "last_lines": line, **changes})  # type: ignore[arg-type]
    return explain_failure(report, REFERENCE, refusals, has_credential=has_credential)


@pytest.mark.parametrize(
    "message",
    [
        "reading manifest 12 in x/y: received unexpected HTTP status: 503 Service Unavailable",
        "toomanyrequests: You have reached your pull rate limit",
        "Requesting bearer token: invalid status code from registry 500 (Internal Server Error)",
        r"pinging container registry x: Get \"https://x/v2/\": dial tcp: i/o timeout",
        "unexpected EOF",
        "remote error: tls: handshake failure",
        "x509: certificate signed by unknown authority",
    ],
)
def test_an_outage_is_temporary(message: str) -> None:
    assert isinstance(explain(message), RegistryUnavailable)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("unauthorized: authentication required", "asks for one (unauthorized"),
        ("denied: requested access to the resource is denied", "asks for one"),
        ("manifest unknown: manifest unknown", "does not have it"),
        ("name unknown: repository name not known to registry", "does not have it"),
        ("StatusCode: 404, <html>", "does not have it"),
        ("http: server gave HTTP response to HTTPS client", "insecure_registries"),
        ("something new", "cannot be pulled: something new."),
        ("", "without a message"),
    ],
)
def test_other_failures_are_final(message: str, words: str) -> None:
    error = explain(message)
    assert not isinstance(error, RegistryUnavailable)
    assert words in str(error)


def test_the_reason_is_short_and_has_no_repetition_of_the_name() -> None:
    prefix = r"Error parsing image name \"docker://x/y:1\": reading manifest 1 in x/y: "
    assert "cannot be pulled: broken." in str(explain(f"{prefix}broken"))
    assert len(str(explain("a" * 5_000))) < 500


def test_a_refused_credential_is_told_from_a_missing_one() -> None:
    text = str(explain("unauthorized: no", has_credential=True))
    assert "does not accept the stored credential" in text
    assert "agentjobs secrets set NAME --for registry --host registry.example.com" in text


def test_what_the_guard_refused_comes_first() -> None:
    blocked = explain("denied", "x could not be reached: y", "z:443 is blocked: a private address")
    assert not isinstance(blocked, RegistryUnavailable)
    assert "z:443 is blocked" in str(blocked)
    assert isinstance(explain("denied", "x could not be reached: y"), RegistryUnavailable)


def test_time_and_size_limits_have_their_own_words() -> None:
    assert isinstance(explain(exit_code=None, timed_out=True), RegistryUnavailable)
    assert "more than the manifest says" in str(explain(exit_code=None, exceeded="1 GiB"))
    assert "more than the manifest says" in str(explain("write /x: file too large"))
