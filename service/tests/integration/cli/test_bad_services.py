"""Commands whose address, key or service is wrong: one line that says what to do, exit code 2."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from socket import create_server
from typing import NamedTuple

import pytest
import trustme

from tests.support.cli_process import CommandLine, CommandResult
from tests.support.scripted_server import http, scripted_servers, server_tls

LIST = ("jobs", "list")
FOLLOW = ("jobs", "logs", "job_1", "--follow")
SHOW = ("jobs", "show", "job_1")
ME = ("me",)
DIFF = ("jobs", "diff", "job_1")
PAGE = "<html><h1>Sign in</h1></html>"
JOB = {"job_id": "job_1", "agent": "x", "created_at": "2020-01-01T00:00:00.000Z"}


def error(status: str, code: str) -> bytes:
    return http(json.dumps({"error": {"code": code, "message": "As the service says."}}), status)


STREAM = http("id: 1\ndata: first \n\nid: 2\nda", media_type="text/event-stream")
END = http("id: 2\ndata: second\n\nevent: end\ndata:\n\n", media_type="text/event-stream")


class Case(NamedTuple):
    command: tuple[str, ...]
    # What is in the line on stderr.
    expected: str
    answer: bytes | tuple[bytes, ...] = b""
    # Instead of the address of a server with this answer.
    url: str = ""
    tls: str = ""
    exit_code: int = 2


CASES = {
    "unknown host": Case(
        LIST, "no-such-host.invalid/v1/ cannot be reached", url="http://no-such-host.invalid"
    ),
    "nothing listens": Case(LIST, "Connection refused", url="closed"),
    "no address": Case(LIST, "is not a valid base URL", url="jobs.example"),
    "page": Case(LIST, "returned a web page with status 200", http(PAGE, media_type="text/html")),
    "proxy": Case(LIST, "a web page with status 502", http(PAGE, "502 Bad Gateway", "text/html")),
    "sign-in page": Case(
        LIST,
        "was redirected to https://sso.example/; use the address of the service itself",
        http("", "302 Found", "text/html", "Location: https://sso.example/"),
    ),
    "another API": Case(LIST, "unexpected", http('{"hello": "world"}')),
    "another 404": Case(
        LIST, "check that the address is the service's", http("no", "404 Not Found", "text/plain")
    ),
    "not HTTP": Case(LIST, "cannot be reached", b"220 mail.example ESMTP\r\n"),
    "closed at once": Case(LIST, "must start with https"),
    "cut body": Case(LIST, "cut off", http('{"jobs": []}')[:-4]),
    "TLS to a plain port": Case(
        LIST, "does not use TLS on this port; try http://", http("{}"), url="https"
    ),
    "plain to a TLS port": Case(
        LIST, "must start with https", http("{}"), tls="trusted", url="http"
    ),
    "unknown authority": Case(LIST, "AGENTJOBS_CA_FILE", http("{}"), tls="untrusted"),
    "expired certificate": Case(LIST, "check the clock of this machine", http("{}"), tls="expired"),
    "future certificate": Case(LIST, "check the clock of this machine", http("{}"), tls="future"),
    "other name": Case(
        LIST, "use the name that the certificate was issued for", http("{}"), tls="other"
    ),
    "trusted certificate": Case(
        (*LIST, "--json"), "", http('{"jobs": [], "next_cursor": null}'), tls="trusted", exit_code=0
    ),
    "refused key": Case(
        LIST, "refused the API key (AGENTJOBS_URL)", error("401 Unauthorized", "unauthorized")
    ),
    "missing scope": Case(
        LIST,
        "As the service says. (insufficient_scope)",
        error("403 Forbidden", "insufficient_scope"),
    ),
    "rate limit": Case(
        LIST, "As the service says. (rate_limited)", error("429 Too Many", "rate_limited")
    ),
    "service with a bug": Case(
        LIST, "As the service says. (internal_error)", error("500 Error", "internal_error")
    ),
    "cut stream": Case(FOLLOW, "", (STREAM, END), exit_code=0),
    "cut stream of a job that is gone": Case(
        FOLLOW, "(job_not_found)", (STREAM, error("404 Not Found", "job_not_found"))
    ),
    "page instead of a stream": Case(
        FOLLOW, "web page with status 200", http(PAGE, media_type="text/html")
    ),
    "cut log": Case(
        ("jobs", "logs", "job_1"), "cut off", http("some text\n", media_type="text/plain")[:-3]
    ),
    "older: no endpoint": Case(
        ME, "does not have GET /v1/me; the service is older", error("404 Not Found", "not_found")
    ),
    "older: no diff": Case(
        DIFF, "the service is older than this client", error("404 Not Found", "not_found")
    ),
    "older: no labels": Case(
        (*LIST, "--label", "team=web"),
        "`label.team` was ignored. The service is older",
        http(json.dumps({"jobs": [], "warnings": ["The parameter `label.team` was ignored."]})),
    ),
    "newer: unknown status and field": Case(
        SHOW, "", http(json.dumps({**JOB, "status": "paused", "more": {"a": 1}})), exit_code=0
    ),
    "newer: another type": Case(
        SHOW, "upgrade this client", http(json.dumps({**JOB, "status": {"now": "queued"}}))
    ),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, CommandResult]]:
    """All at once, because most of them retry before they give up."""
    directory = tmp_path_factory.mktemp("bad")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    now = datetime.now(UTC)
    contexts = {
        "": None,
        "trusted": server_tls(authority),
        "untrusted": server_tls(trustme.CA()),
        "other": server_tls(authority, "jobs.example"),
        "expired": server_tls(
            authority, not_before=now - timedelta(days=9), not_after=now - timedelta(days=1)
        ),
        "future": server_tls(
            authority, not_before=now + timedelta(days=1), not_after=now + timedelta(days=9)
        ),
    }
    with create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with scripted_servers() as listen, ThreadPoolExecutor(len(CASES)) as pool:

        def run(case: Case) -> CommandResult:
            url = f"http://127.0.0.1:{port}" if case.url == "closed" else case.url
            answers = case.answer if isinstance(case.answer, tuple) else (case.answer,)
            if case.url in ("", "http", "https"):
                scheme = case.url or ("https" if case.tls else "http")
                url = f"{scheme}://127.0.0.1:{listen(*answers, tls=contexts[case.tls])}"
            command = CommandLine(
                directory / "data",
                AGENTJOBS_URL=url,
                AGENTJOBS_API_KEY="ajk_x",
                SSL_CERT_FILE=str(directory / "ca.pem"),
            )
            return command(*case.command)

        yield dict(zip(CASES, pool.map(run, CASES.values()), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_one_line_and_an_exit_code(results, name):
    case, result = CASES[name], results[name]
    assert result.exit_code == case.exit_code, result.err
    if case.exit_code == 0:
        assert result.err == ""
        return
    assert case.expected in result.err
    assert result.err.startswith("agentjobs: ")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err
    assert "bug" not in result.err


def test_a_cut_stream_is_resumed(results):
    assert results["cut stream"].out == "first second"
    assert results["cut stream of a job that is gone"].out == "first "
