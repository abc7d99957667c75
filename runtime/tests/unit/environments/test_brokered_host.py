"""Which requests a brokered host accepts, and what an admin may write about it."""

import posixpath
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.environments.brokered_host import (
    KINDS,
    BrokeredHost,
    CredentialHeader,
    Kind,
    parse_header,
    parse_host,
    parse_methods,
    parse_path_prefix,
)


def brokered(path_prefix: str = "/", kind: Kind = "", secret: str = "the-value") -> BrokeredHost:
    return BrokeredHost(
        name="npm_token",
        host="packages.acme.com",
        header="Authorization: Bearer {secret}",
        secret=secret,
        path_prefix=path_prefix,
        kind=kind,
    )


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("Authorization: Bearer {secret}", "Authorization", "Bearer {secret}"),
        ("X-JFrog-Art-Api:{secret}", "X-JFrog-Art-Api", "{secret}"),
        ("PRIVATE-TOKEN:  {secret} ", "PRIVATE-TOKEN", "{secret}"),
    ],
)
def test_a_header_is_a_name_and_a_value_with_the_secret(text: str, name: str, value: str) -> None:
    assert parse_header(text) == CredentialHeader(name, value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Bearer {secret}", "Authorization: Bearer"),
        ("Autho rization: {secret}", "Authorization: Bearer"),
        (": {secret}", "Authorization: Bearer"),
        ("Authorization: Bearer", "exactly once"),
        ("Authorization: {secret}{secret}", "exactly once"),
        ("Authorization: {secret}\r\nX-Admin: 1", "one line"),
        ("Authorization: {secret}\n", "one line"),
        ("Authorization: Schlüssel {secret}", "ASCII"),
        ("Host: {secret}", "Host is set by the service"),
        ("content-length: {secret}", "set by the service"),
        ("Transfer-Encoding: {secret}", "set by the service"),
        ("Connection: {secret}", "set by the service"),
        (f"X-{'a' * 1_000}: {{secret}}", "at most 1000 characters"),
    ],
)
def test_a_header_that_could_not_be_sent_is_explained(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_header(text)


def test_a_host_is_one_name_with_an_optional_port() -> None:
    assert parse_host("Packages.Acme.com.") == "packages.acme.com"
    assert parse_host("packages.acme.com:443") == "packages.acme.com"
    assert parse_host("packages.acme.com:80") == "packages.acme.com:80"
    assert parse_host("[2001:DB8::1]:8443") == "[2001:db8::1]:8443"
    for text in ("*.acme.com", "https://acme.com", "user@acme.com", "localhost", "", "a:0"):
        with pytest.raises(ValueError):
            parse_host(text)


def test_a_path_prefix_is_a_plain_path() -> None:
    for text in ("/", "/api/pypi", "/api/pypi/", "/@acme/v1.0~x"):
        assert parse_path_prefix(text) == text
    for text in (
        "",
        "api",
        "/a//b",
        "/a/../b",
        "/a/.",
        "/%61",
        "/a?b",
        "/a b",
        "/a\\b",
        "/{address}",
    ):
        with pytest.raises(ValueError, match="path prefix"):
            parse_path_prefix(text)
    with pytest.raises(ValueError, match="at most 1000"):
        parse_path_prefix(f"/{'a' * 1_000}")


def test_methods_are_a_list_of_known_ones() -> None:
    assert parse_methods("get, HEAD,post,GET") == ("GET", "HEAD", "POST")
    for text in ("", "CONNECT", "TRACE", "GET,,HEAD"):
        with pytest.raises(ValueError, match="choose from GET"):
            parse_methods(text)


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/a",
        "/a/",
        "/@acme%2fshared",
        "/a/b-1.0+x.whl?x=../..//",
        "/a..b/.c",
        "/%C3%BC/a%2520b",
    ],
)
def test_ordinary_paths_are_forwarded(target: str) -> None:
    assert brokered().refusal("GET", target) is None
    assert brokered("/p/q").refusal("HEAD", f"/p/q{target}") is None


@pytest.mark.parametrize(
    "rest",
    [
        *("/..", "/../x", "/./x", "/%2e%2e/x", "/.%2E/x", "/%252e%252e/x", "/..;a=b/x", "/;/x"),
        *("/%2e%2e%2fx", "/a%2f..%2f..%2f..%2fx", "/..%20/x", "/..%5cx", "/..\\x", "/a\\..\\x"),
        *("//x", "/a//x", "/a%2f%2fx", "/%2f/x", "/%c0%ae%c0%ae/x", "/a%00", "/a%0d%0ab"),
        *("/%25252525", "/a b", "/a#b", "/\x7f", "/ü"),
    ],
)
def test_paths_that_servers_may_read_in_several_ways_are_refused(rest: str) -> None:
    assert brokered("/p/q").refusal("GET", f"/p/q{rest}") is not None
    assert brokered().refusal("GET", rest) is not None


PIECES = ("/", "%2f", "%252F", ".", "%2e", "%25", "2e", "2f", "a", ";", "p", "q", "/p/q")


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_no_accepted_path_leaves_the_prefix_however_often_it_is_decoded(pieces: list[str]) -> None:
    path = "/p/q/" + "".join(pieces)
    if brokered("/p/q").refusal("GET", path) is None:
        for _ in range(5):
            assert f"{posixpath.normpath(path)}/".startswith("/p/q/")
            path = unquote(path)


@pytest.mark.parametrize("target", ["/", "/p", "/p/qr", "/p/", "/P/Q/x", "/p%2fq", "/p/q;x/y"])
def test_paths_beside_the_prefix_are_refused(target: str) -> None:
    for prefix in ("/p/q", "/p/q/"):
        reason = brokered(prefix).refusal("GET", target)

        assert reason == f"only paths below {prefix} are forwarded"
        assert brokered(prefix).refusal("GET", "/p/q") is None


@pytest.mark.parametrize("target", ["*", "", "a", "http://packages.acme.com/", "intranet:443"])
def test_only_a_path_is_a_target(target: str) -> None:
    assert "not a URL" in (brokered().refusal("GET", target) or "")


@pytest.mark.parametrize("method", ["POST", "get", "CONNECT", "TRACE", "X" * 10_000])
def test_other_methods_are_refused(method: str) -> None:
    reason = brokered().refusal(method, "/") or ""

    assert reason.startswith("this port forwards only GET, HEAD to packages.acme.com")
    assert len(reason) < 200


def test_the_url_is_always_set_and_package_managers_are_configured_by_kind() -> None:
    url = "http://{address}/api"
    expected = {
        "": {},
        "pip": {"PIP_INDEX_URL": f"{url}/simple/", "UV_DEFAULT_INDEX": f"{url}/simple/"},
        "npm": {"npm_config_registry": f"{url}/", "npm_config_replace_registry_host": "always"},
        "cargo": {
            "CARGO_REGISTRIES_NPM_TOKEN_INDEX": f"sparse+{url}/",
            "CARGO_REGISTRIES_NPM_TOKEN_TOKEN": "brokered",
            "CARGO_REGISTRIES_NPM_TOKEN_CREDENTIAL_PROVIDER": "cargo:token",
        },
        "go": {"GOPROXY": url, "GOSUMDB": "off"},
    }
    assert set(expected) == {"", *KINDS}
    for kind in ("", *KINDS):
        for prefix in ("/api", "/api/"):
            environment = brokered(prefix, kind).environment
            assert environment == {"AGENTJOBS_NPM_TOKEN_URL": url, **expected[kind]}
    simple = brokered("/root/+simple", "pip").environment["PIP_INDEX_URL"]
    assert simple == "http://{address}/root/+simple/"


def test_the_secret_is_in_the_header_and_nowhere_else() -> None:
    host = brokered(kind="pip")

    assert host.credential == ("Authorization", "Bearer the-value")
    assert "the-value" not in repr(host) + str(host.environment)
    for secret in ("a\nb", "a\r\nX: y", "", "ü", "a\0"):
        assert brokered(secret=secret).credential is None
