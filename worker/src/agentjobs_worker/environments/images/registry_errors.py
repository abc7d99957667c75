"""Turns a failure of skopeo into an error that says what to do. Pure text."""

import re
from collections.abc import Sequence

from agentjobs_runtime.environments.images.errors import ImageError, RegistryUnavailable
from agentjobs_runtime.environments.images.reference import Reference
from agentjobs_runtime.outbound.egress.policy import BLOCKED
from agentjobs_runtime.safe_text import ellipsize, single_line
from agentjobs_worker.sandbox.protocol import SandboxReport

_MESSAGE = re.compile(r'level=fatal msg="((?:[^"\\]|\\.)*)"')
# What skopeo puts before the reason.
_CONTEXT = re.compile(
    r'^(?:Error parsing image name "[^"]*": |initializing source \S+: '
    r"|(?:reading|determining) manifest \S+ in \S+: |pinging container registry \S+: )+"
)
_MAX_CHARACTERS = 300

_PLAIN_HTTP = re.compile(r"server gave HTTP response to HTTPS client")
_REFUSED = re.compile(
    r"\b(?:unauthorized|denied|forbidden|authentication required)\b|invalid username/password"
    r"|status ?code\D{1,20}40[13]\b",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"\b(?:manifest|name|repository) (?:un|not )known\b|\bnot found\b"
    r"|status ?code\D{1,20}404\b",
    re.IGNORECASE,
)
_CERTIFICATE = re.compile(r"\bx509\b|certificate")
_TEMPORARY = re.compile(
    r"connection (?:refused|reset|timed out)|no such host|i/o timeout|deadline exceeded|\bEOF\b"
    r"|no route to host|network is unreachable|broken pipe|TLS handshake|\btls:|toomanyrequests"
    r"|too many requests|Bad Gateway|Gateway Timeout|Service Unavailable"
    r"|status(?: ?code)?\D{1,20}(?:408|429|5\d\d)\b",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(r"file too large")


def explain_failure(
    report: SandboxReport,
    reference: Reference,
    refusals: Sequence[str],
    *,
    has_credential: bool,
) -> ImageError:
    """`refusals` are the connections that the guard refused."""
    start = f"{reference} cannot be pulled"
    if blocked := next((reason for reason in refusals if BLOCKED in reason), None):
        return ImageError(f"{start}: {blocked}.")
    if report.timed_out:
        return RegistryUnavailable(f"{start}: {reference.host} did not respond in time.")
    if report.exceeded is not None or _TOO_LARGE.search(report.last_lines):
        return ImageError(f"{start}: the registry sends more than the manifest says.")
    if refusals:
        return RegistryUnavailable(f"{start}: {refusals[0]}.")
    return _explain(start, _reason(report.last_lines), reference, has_credential=has_credential)


def _explain(start: str, reason: str, reference: Reference, *, has_credential: bool) -> ImageError:
    host = reference.host
    if _PLAIN_HTTP.search(reason):
        return ImageError(
            f"{start}: {host} uses plain HTTP. The operator can add it to insecure_registries."
        )
    # Before the status codes, which a proxy's page may mention.
    if _REFUSED.search(reason):
        problem = "does not accept the stored credential" if has_credential else "asks for one"
        return ImageError(
            f"{start}: {host} {problem} ({reason}). Store a credential that may pull it: agentjobs "
            f"secrets set NAME --for registry --host {host} --username USER"
        )
    if _MISSING.search(reason):
        return ImageError(
            f"{start}: {host} does not have it ({reason}). Check its name and tag. If it is "
            f"private, store a credential that may pull it: agentjobs secrets set NAME --for "
            f"registry --host {host} --username USER"
        )
    if _CERTIFICATE.search(reason):
        return RegistryUnavailable(
            f"{start}: the certificate of {host} is not valid here ({reason}). The operator can "
            "set ca_file."
        )
    if _TEMPORARY.search(reason):
        return RegistryUnavailable(f"{start}: {reason}.")
    return ImageError(f"{start}: {reason}.")


def _reason(output: str) -> str:
    match = _MESSAGE.search(single_line(output))
    text = match.group(1).replace('\\"', '"') if match else output
    reason = _CONTEXT.sub("", single_line(text)).removesuffix(".")
    return ellipsize(reason, _MAX_CHARACTERS) or "skopeo failed without a message"
