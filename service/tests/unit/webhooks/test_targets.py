"""Which addresses may become endpoints; names are looked up by the tests themselves."""

import socket
from collections.abc import Sequence

import pytest

from agentjobs.webhooks import targets
from agentjobs.webhooks.allowed_addresses import (
    SETTING,
    configured_allow_list,
    may_allow_loopback,
)
from agentjobs.webhooks.targets import check_target
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import SettingsError, load
from tests.support.silent_resolver import silent_resolver

PUBLIC = "93.184.215.14"
NAMES = {
    "hooks.example.com": [PUBLIC, "2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
    "hooks.example.com.": [PUBLIC],
    "inside.example.com": ["10.1.2.3", "fd00::1"],
    "half.example.com": ["10.1.2.3", PUBLIC],
    "metadata.example.com": ["169.254.169.254"],
    "localhost": ["127.0.0.1", "::1"],
    "a_b": [PUBLIC],
}
NOTHING = AllowList.parse([], setting=SETTING)
LOOPBACK = AllowList.parse(["127.0.0.0/8", "::1"], setting=SETTING)
TEN = AllowList.parse(["10.0.0.0/8", PUBLIC], setting=SETTING)


def lookup(host: str) -> Sequence[str]:
    if host not in NAMES:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return NAMES[host]


async def warning_of(url: str, allowed: AllowList = NOTHING, **options: bool) -> str | None:
    return await check_target(url, allowed, lookup=lookup, **options)


async def refusal_of(url: str, allowed: AllowList = NOTHING, **options: bool) -> Problem:
    with pytest.raises(Problem) as problem:
        await warning_of(url, allowed, **options)
    return problem.value


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com",
        "HTTPS://Hooks.Example.com:8443/a/b?c[]=%C3%A4&d='e'",
        "https://hooks.example.com./",
        "https://a_b/",
        "https://half.example.com/",
        f"https://{PUBLIC}/",
        "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:1/",
        "https://hooks.example.com/" + "x" * (2_048 - 26),
    ],
)
async def test_a_public_https_url_is_accepted(url):
    assert await warning_of(url) is None


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("", "https://"),
        ("hooks.example.com", "https://"),
        ("//hooks.example.com/", "https://"),
        ("ftp://hooks.example.com/", "https://"),
        ("https:hooks.example.com", "host"),
        ("https:///path", "host"),
        ("https://:443/", "host"),
        ("https://user@hooks.example.com/", "user name"),
        ("https://user:pass@hooks.example.com/", "user name"),
        ("https://hooks.example.com/#part", "fragment"),
        ("https://hooks.example.com/#", "fragment"),
        ("https://hooks.example.com/a b", "%XX"),
        ("https://hooks.example.com/a\nb", "%XX"),
        ("https://hooks.example.com/\x00", "%XX"),
        ("https://hooks.example.com\t/", "%XX"),
        (" https://hooks.example.com/", "%XX"),
        ("https://hooks.example.com\\@inside.example.com/", "%XX"),
        ("https://hooks.example.com/ä", "%XX"),
        ("https://hooks.exämple.com/", "xn--"),
        ("https://hooks.example.com/%zz", "%XX"),
        ("https://hooks.example.com/%", "%XX"),
        ("https://hooks.example.com/\ud800", "%XX"),
        ("https://hooks.example.com:0/", "port"),
        ("https://hooks.example.com:65536/", "Port"),
        ("https://hooks.example.com:http/", "port"),
        ("https://[::1/", "is invalid"),
        ("https://[::1]x/", "is invalid"),
        ("https://[::1]x:8443/", "is invalid"),
        ("https://x[::1]/", "is invalid"),
        ("https://[nonsense]/", ""),
        ("https://[fe80::1%25eth0]/", "nor an IP address"),
        ("https://a..b/", "host"),
        ("https://.example.com/", "host"),
        ("https://-a.example.com/", "host"),
        ("https://a-.example.com/", "host"),
        ("https://%31%32%37.0.0.1/", "host"),
        ("https://" + "a" * 64 + ".example.com/", "host"),
        ("https://hooks.example.com/" + "x" * 2_048, "2048"),
    ],
)
async def test_an_invalid_url_is_refused_with_the_reason(url, hint):
    refusal = await refusal_of(url)
    assert refusal.code == "invalid_url"
    assert hint in refusal.message


@pytest.mark.parametrize(
    "host",
    [
        *("127.1", "0x7f.1", "0X7F000001", "2130706433", "0177.0.0.1", "127.0.0.1."),
        *("010.1.2.3", "0", "[::ffff:127.0.0.1]", "[::ffff:8.8.8.8]", "[0:0:0:0:0:0:0:1]"),
        "[64:ff9b::127.0.0.1]",
    ],
)
async def test_a_non_canonical_ip_address_is_refused(host):
    for scheme in ("https", "http"):
        refusal = await refusal_of(f"{scheme}://{host}:8000/x", LOOPBACK)
        assert refusal.code == "invalid_url"


@pytest.mark.parametrize("host", ["127.0.0.256", "1.2.3.4.5", "0x", "1.2.3.0x", "08.1.1.1", "a.1"])
async def test_a_host_that_ends_in_a_number_but_is_not_an_ip_address_is_refused(host):
    assert (await refusal_of(f"https://{host}/")).code == "invalid_url"


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.0.1", "0.0.0.0", "224.0.0.1"),
        *("[::1]", "[fd00::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[ff02::1]"),
        *("localhost", "inside.example.com", "metadata.example.com"),
    ],
)
async def test_an_internal_address_is_refused_and_the_setting_named(host):
    for scheme in ("https", "http"):
        refusal = await refusal_of(f"{scheme}://{host}/")
        assert refusal.code == "blocked_address"
        assert "AGENTJOBS_WEBHOOKS_ALLOW" in refusal.message


async def test_listed_addresses_are_accepted_with_http_too():
    for url in ("http://127.0.0.1:8000/", "http://[::1]:8000/", "http://localhost/"):
        assert await warning_of(url, LOOPBACK) is None
    for url in ("https://10.9.9.9/", "http://10.9.9.9/", "https://inside.example.com/"):
        assert await warning_of(url, TEN) is None


@pytest.mark.parametrize(
    "url", ["http://hooks.example.com/", "http://inside.example.com/", "http://8.8.8.8/"]
)
async def test_http_requires_every_address_of_the_host_to_be_listed(url):
    refusal = await refusal_of(url, TEN)
    assert refusal.code == "blocked_address"
    assert "Use https" in refusal.message
    assert await warning_of("http://half.example.com/", TEN) is None


async def test_an_unresolvable_name_is_a_warning_for_https_and_refused_for_http():
    warning = await warning_of("https://absent.example.com/")
    assert warning is not None
    assert "Name or service not known" in warning
    refusal = await refusal_of("http://absent.example.com/", LOOPBACK)
    assert refusal.code == "blocked_address"


async def test_a_lookup_without_a_response_times_out(monkeypatch):
    monkeypatch.setattr(targets, "LOOKUP_SECONDS", 0.05)
    with silent_resolver() as names:
        url = "https://silent.example.com/"
        warning = await check_target(url, NOTHING, lookup=names.lookup)
    assert warning is not None
    assert "no response within" in warning


async def test_with_a_proxy_names_are_not_resolved_but_ip_addresses_are_checked():
    assert await warning_of("https://inside.example.com/", has_proxy=True) is None
    assert await warning_of("https://absent.example.com/", has_proxy=True) is None
    assert (await refusal_of("https://10.1.2.3/", has_proxy=True)).code == "blocked_address"
    assert (await refusal_of("http://inside.example.com/", has_proxy=True)).code == (
        "blocked_address"
    )


@pytest.mark.parametrize(
    ("settings", "is_laptop", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"AGENTJOBS_WEBHOOKS_ALLOW": "10.0.0.0/8"}, True, False),
        (
            {"AGENTJOBS_OIDC_ISSUER": "https://id.example", "AGENTJOBS_OIDC_CLIENT_ID": "a"},
            True,
            False,
        ),
    ],
)
def test_only_a_laptop_service_without_a_list_may_reach_loopback(
    tmp_path, settings, is_laptop, expected
):
    loaded = load(settings, data_dir=str(tmp_path))
    assert may_allow_loopback(loaded, is_laptop=is_laptop) is expected


def test_an_invalid_allow_list_names_the_setting_and_the_text(tmp_path):
    settings = load({"AGENTJOBS_WEBHOOKS_ALLOW": "10.0.0.1/8"}, data_dir=str(tmp_path))
    with pytest.raises(SettingsError, match=r"AGENTJOBS_WEBHOOKS_ALLOW: '10\.0\.0\.1/8'"):
        configured_allow_list(settings)
