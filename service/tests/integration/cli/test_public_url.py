"""`agentjobs doctor` says what answers at the public URL, if it is not this service."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import create_server
from typing import NamedTuple

import pytest
import trustme

from agentjobs.cli.doctor.finding import Finding
from agentjobs.cli.doctor.public_url import try_public_url
from agentjobs_runtime.settings import load
from tests.support.scripted_server import http, scripted_servers, server_tls

PAGE = "<html><h1>Welcome</h1></html>"


class Case(NamedTuple):
    state: str
    # What is in the message.
    expected: str
    answer: bytes = b""
    # Instead of the address of a server with this answer.
    url: str = ""
    tls: str = ""


def healthy(instance: str) -> bytes:
    return http(f'{{"status":"ok","instance":"{instance}"}}')


CASES = {
    "this service": Case("ok", "leads to this service", healthy("ours")),
    "this service with TLS": Case("ok", "leads to this service", healthy("ours"), tls="trusted"),
    "another agentjobs": Case("problem", "another agentjobs", healthy("theirs")),
    "strange agentjobs": Case(
        "problem", "not answered by agentjobs", http('{"status":"ok","instance":[["ours"]]}')
    ),
    "agentjobs without a name": Case("problem", "another agentjobs", http('{"status":"ok"}')),
    "unknown host": Case(
        "problem",
        "Name or service not known): check AGENTJOBS_PUBLIC_URL",
        url="http://jobs.invalid",
    ),
    "nothing listens": Case("problem", "does not answer (Connection refused)", url="closed"),
    "unknown authority": Case(
        "problem",
        "certificate that is not trusted (unable to get local issuer",
        healthy("ours"),
        tls="untrusted",
    ),
    "expired certificate": Case(
        "problem",
        "certificate that is not trusted (certificate has expired)",
        healthy("ours"),
        tls="expired",
    ),
    "other name": Case(
        "problem",
        "certificate that is not trusted (IP address mismatch",
        healthy("ours"),
        tls="other",
    ),
    "TLS to a plain port": Case("problem", "does not answer ([SSL", http("{}"), url="https"),
    "plain to a TLS port": Case(
        "problem", "check AGENTJOBS_PUBLIC_URL", healthy("ours"), url="http", tls="trusted"
    ),
    "proxy without service": Case(
        "problem",
        "is not answered by agentjobs (502 Bad Gateway): correct AGENTJOBS_PUBLIC_URL, or let the",
        http(PAGE, "502 Bad Gateway", "text/html"),
    ),
    "sign-in of a proxy": Case(
        "problem", "by agentjobs (401 Unauthorized)", http(PAGE, "401 Unauthorized", "text/html")
    ),
    "redirect": Case(
        "problem",
        "redirects to https://jobs.example/ (301 Moved)",
        http("", "301 Moved", "text/html", "Location: https://jobs.example/"),
    ),
    "web page": Case("problem", "by agentjobs (200 OK)", http(PAGE, media_type="text/html")),
    "another API": Case("problem", "by agentjobs (200 OK)", http("[1]")),
    "unknown status": Case("problem", "by agentjobs (299 Fine)", http("x", "299 Fine")),
    "not HTTP": Case("problem", "does not answer (", b"220 mail.example ESMTP\r\n"),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Finding]]:
    ca_file = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(ca_file))
    expired = datetime.now(UTC) - timedelta(days=1)
    contexts = {
        "": None,
        "trusted": server_tls(authority),
        "untrusted": server_tls(trustme.CA()),
        "other": server_tls(authority, "jobs.example"),
        "expired": server_tls(authority, not_before=expired - timedelta(days=9), not_after=expired),
    }
    with create_server(("127.0.0.1", 0)) as closed:
        closed_url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    settings = load({"AGENTJOBS_DATA_DIR": "/nonexistent", "AGENTJOBS_CA_FILE": str(ca_file)})
    with scripted_servers() as listen:

        def url_of(case: Case) -> str:
            if case.url not in ("", "http", "https"):
                return closed_url if case.url == "closed" else case.url
            scheme = case.url or ("https" if case.tls else "http")
            return f"{scheme}://127.0.0.1:{listen(case.answer, tls=contexts[case.tls])}"

        async def try_all() -> list[Finding]:
            checks = [try_public_url(settings, url_of(case), {"ours"}) for case in CASES.values()]
            return await asyncio.gather(*checks)

        yield dict(zip(CASES, asyncio.run(try_all()), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_the_public_url_leads_to_is_named(results: dict[str, Finding], name: str) -> None:
    case, finding = CASES[name], results[name]
    assert (finding.subject, finding.state) == ("address", case.state), finding.message
    assert case.expected in finding.message


async def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    ca_file = tmp_path / "absent.pem"
    settings = load({"AGENTJOBS_DATA_DIR": "/nonexistent", "AGENTJOBS_CA_FILE": str(ca_file)})
    finding = await try_public_url(settings, "https://127.0.0.1:1", None)
    assert f"AGENTJOBS_CA_FILE: {ca_file} cannot be read" in finding.message
