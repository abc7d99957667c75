"""Parsing of import URLs, credentials and git's progress output."""

import pytest

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
