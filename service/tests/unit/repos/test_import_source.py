"""Parsing of import URLs, credentials and git's progress output."""

import pytest

from agentjobs.repos.imports.progress import ImportProgress
from agentjobs.repos.imports.source import authorization, parse_source
from agentjobs_runtime.problems import Problem


@pytest.mark.parametrize(
    ("address", "url", "host", "port"),
    [
        ("https://git.example/a/b.git", "https://git.example/a/b.git", "git.example", 443),
        (" https://GIT.example.:443/a/b ", "https://git.example/a/b", "git.example", 443),
        ("HTTPS://git.example:8443/a", "https://git.example:8443/a", "git.example", 8443),
        ("https://[2001:DB8::1]/a", "https://[2001:db8::1]/a", "2001:db8::1", 443),
        ("https://10.0.0.1/a", "https://10.0.0.1/a", "10.0.0.1", 443),
    ],
)
def test_urls_are_normalized(address: str, url: str, host: str, port: int) -> None:
    source = parse_source(address)
    assert (source.url, source.host, source.port) == (url, host, port)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://git.example/a",
        "ssh://git.example/a",
        "git@git.example:a/b.git",
        "/srv/git/a.git",
        "file:///etc",
        "ext::sh -c touch% /tmp/planted",
        "https://",
        "https://git.example",
        "https://git.example/",
        "https://me:s3cret@git.example/a",
        "https://s3cret@git.example/a",
        "https://@git.example/a",
        "https://git.example/a?private_token=s3cret",
        "https://git.example/a#s3cret",
        "https://git.example\\@10.0.0.1/a",
        "https://git.example:99999/a",
        "https://git.example:x/a",
        "https://git.example:-1/a",
        "https://0x7f000001/a",
        "https://127.1/a",
        "https://2130706433/a",
        "https://[::1/a",
        "https://[fe80::1%25eth0]/a",
        "https://git.example/a b",
        "https://git.example/a\nhttp.proxy=x",
        "https://gít.example/a",
        "https://*.example/a",
        "https://git.example/" + "a" * 2_000,
    ],
)
def test_invalid_urls_are_rejected_without_repeating_a_secret(address: str) -> None:
    with pytest.raises(Problem) as caught:
        parse_source(address)
    assert caught.value.code == "invalid_source"
    assert "s3cret" not in caught.value.message


def test_a_token_without_a_user_gets_a_default_user() -> None:
    assert authorization("", "") is None
    assert authorization("", "t") == "Basic Z2l0OnQ="
    assert authorization("ada", "t") == "Basic YWRhOnQ="


@pytest.mark.parametrize(
    ("user", "token"), [("a:b", "t"), ("a\nb", "t"), ("", "t\r\nX: y"), ("", "t" * 2_001)]
)
def test_a_credential_that_cannot_be_sent_is_rejected(user: str, token: str) -> None:
    with pytest.raises(Problem) as caught:
        authorization(user, token)
    assert caught.value.code == "invalid_credential"
    assert not token or token not in caught.value.message or token == "t"


def test_progress_is_parsed_from_chunks_of_any_size() -> None:
    progress = ImportProgress()
    assert progress.message(0) == "Waiting for the server"
    assert progress.message(10) == "The server is preparing the repository, 10 bytes received"
    output = (
        b"remote: Counting objects: 100% (9/9), done.\n"
        b"remote: Receiving objects: 99%\r"
        b"Receiving objects:   4% (1/25)\rReceiving objects:  45% (12/25), 1.00 MiB\r"
    )
    for number in range(len(output)):
        progress.feed(output[number : number + 1])
    assert progress.message(3 * 2**19) == "Receiving objects: 45 %, 1.5 MiB received"
    progress.feed(b"Receiving objects: 100% (25/25)\nResolving deltas:   0% (0/4)\rRes")
    assert progress.message(2048) == "Resolving deltas: 0 %, 2.0 KiB received"


def test_a_line_that_never_ends_is_truncated() -> None:
    progress = ImportProgress()
    for _ in range(100):
        progress.feed(b"x" * 10_000)
    progress.feed(b"\nReceiving objects:  7% (1/25)\r")
    assert progress.message(1) == "Receiving objects: 7 %, 1 bytes received"
