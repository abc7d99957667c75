"""Addresses that tenants name, and what git says on its way."""

import pytest

from agentjobs.problems import Problem
from agentjobs.repos.imports.progress import ImportProgress
from agentjobs.repos.imports.source import authorization, checked_source


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
def test_an_address_has_one_plain_spelling(address: str, url: str, host: str, port: int) -> None:
    source = checked_source(address)
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
def test_other_addresses_are_refused_without_repeating_a_secret(address: str) -> None:
    with pytest.raises(Problem) as refused:
        checked_source(address)
    assert refused.value.code == "invalid_source"
    assert "s3cret" not in refused.value.message


def test_a_token_alone_goes_under_a_name_of_nobody() -> None:
    assert authorization("", "") is None
    assert authorization("", "t") == "Basic Z2l0OnQ="
    assert authorization("ada", "t") == "Basic YWRhOnQ="


@pytest.mark.parametrize(
    ("user", "token"), [("a:b", "t"), ("a\nb", "t"), ("", "t\r\nX: y"), ("", "t" * 2_001)]
)
def test_a_credential_that_cannot_be_sent_is_refused(user: str, token: str) -> None:
    with pytest.raises(Problem) as refused:
        authorization(user, token)
    assert refused.value.code == "invalid_credential"
    assert not token or token not in refused.value.message or token == "t"


def test_progress_is_read_from_pieces_of_any_size() -> None:
    progress = ImportProgress()
    assert progress.words(0) == "Waiting for the server's answer"
    assert progress.words(10) == "The server prepares it, 10 bytes received"
    said = (
        b"remote: Counting objects: 100% (9/9), done.\n"
        b"remote: Receiving objects: 99%\r"
        b"Receiving objects:   4% (1/25)\rReceiving objects:  45% (12/25), 1.00 MiB\r"
    )
    for number in range(len(said)):
        progress.note(said[number : number + 1])
    assert progress.words(3 * 2**19) == "Receiving objects: 45 %, 1.5 MiB received"
    progress.note(b"Receiving objects: 100% (25/25)\nResolving deltas:   0% (0/4)\rRes")
    assert progress.words(2048) == "Resolving deltas: 0 %, 2.0 KiB received"


def test_a_line_without_end_is_not_kept() -> None:
    progress = ImportProgress()
    for _ in range(100):
        progress.note(b"x" * 10_000)
    progress.note(b"\nReceiving objects:  7% (1/25)\r")
    assert progress.words(1) == "Receiving objects: 7 %, 1 bytes received"
