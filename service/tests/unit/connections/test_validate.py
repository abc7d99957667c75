"""What a person gives to connect a platform: addresses, names, apps and credentials."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from agentjobs.connections.connections import NewConnection
from agentjobs.connections.validate import (
    validate_credential,
    validate_installation,
    validate_name,
    validate_platform,
    validate_url,
)
from agentjobs.repos.names import validate_platform_name
from agentjobs_runtime.problems import Problem


def pem(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    encryption: KeySerializationEncryption | None = None,
) -> str:
    form = PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(Encoding.PEM, form, encryption or NoEncryption()).decode()


@pytest.mark.parametrize(
    ("platform", "given", "kept"),
    [
        ("github", "", "https://github.com"),
        ("gitlab", " ", "https://gitlab.com"),
        ("github", "https://github.com/", "https://github.com"),
        ("github", "https://api.github.com", "https://github.com"),
        ("github", "https://GHE.Example.com/api/v3/", "https://ghe.example.com"),
        ("gitlab", "https://git.example.com:443/api/v4", "https://git.example.com"),
        ("gitlab", "https://example.com:8443/gitlab/", "https://example.com:8443/gitlab"),
        ("gitea", "HTTPS://codeberg.org/api/v1", "https://codeberg.org"),
        ("gitea", "http://10.1.2.3:3000", "http://10.1.2.3:3000"),
        ("gitea", "http://git.lan:80/", "http://git.lan"),
        ("gitea", "https://[2001:DB8::1]:3000/git", "https://[2001:db8::1]:3000/git"),
    ],
)
def test_an_address_is_normalized(platform: str, given: str, kept: str) -> None:
    assert validate_url(platform, given) == kept
    assert validate_url(platform, kept) == kept


@pytest.mark.parametrize(
    "given",
    [
        "git.example.com",
        "ssh://git@example.com",
        "file:///etc",
        "https:/example.com",
        "https://",
        "https://user:token@example.com",
        "https://token@example.com",
        "https://example.com/../etc",
        "https://example.com/a/../b",
        "https://example.com/%2e%2e/b",
        "https://example.com//b",
        "https://example.com/a?b",
        "https://example.com/#b",
        "https://example.com\\@evil.example",
        "https://exa mple.com",
        "https://example.com:99999",
        "https://0x7f.1",
        "https://[fe80::1%25eth0]",
        "https://exämple.com",
        "https://example.com/\n",
        "https://example.com/" + "a" * 500,
    ],
)
def test_any_other_address_is_refused_and_not_repeated(given: str) -> None:
    if given.endswith("\n"):
        given = f"{given}x"
    with pytest.raises(Problem) as problem:
        validate_url("gitea", given)
    assert problem.value.code == "invalid_url"
    assert "token@" not in problem.value.message


def test_a_self_hosted_platform_needs_an_address_and_there_are_three_platforms() -> None:
    with pytest.raises(Problem, match="Enter the address of the platform"):
        validate_url("gitea", "")
    assert validate_platform("gitlab") == "gitlab"
    for other in ("local", "bitbucket", "GitHub", ""):
        with pytest.raises(Problem, match="github, gitlab, gitea"):
            validate_platform(other)


@pytest.mark.parametrize("name", ["github", "gitlab-2", "a", "git.example.com", "0" * 63])
def test_names_of_connections(name: str) -> None:
    assert validate_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a b", "a/b", "fcn_1", "a\n", "a" * 64])
def test_names_that_no_connection_has(name: str) -> None:
    with pytest.raises(Problem):
        validate_name(name)


def test_an_app_needs_both_ids_and_only_github_has_apps() -> None:
    assert validate_installation("github", "12", "345") == ("12", "345")
    assert validate_installation("github", "Iv23liAbCdEf", "345") == ("Iv23liAbCdEf", "345")
    assert validate_installation("gitlab", None, "") == (None, None)
    for platform, app_id, installation_id in (
        ("gitlab", "12", "345"),
        ("github", "12", None),
        ("github", None, "345"),
        ("github", "12/../13", "345"),
        ("github", "12", "345?x"),
        ("github", "0", "345"),
    ):
        with pytest.raises(Problem) as problem:
            validate_installation(platform, app_id, installation_id)
        assert problem.value.code == "invalid_app"


def test_the_key_of_an_app_is_an_rsa_key_in_pem_form() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    good = pem(key)
    validate_credential("app", good)
    for bad, reason in (
        ("ghp_token", "not PEM text"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "another kind of key"),
        (pem(key, BestAvailableEncryption(b"x")), "passphrase"),
        (good[:200] + good[-40:], "cannot be read"),
        ("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "cannot be read"),
    ):
        with pytest.raises(Problem, match=reason) as problem:
            validate_credential("app", bad)
        assert "RSA key in PEM form" in problem.value.message
        assert bad[-70:] not in problem.value.message


def test_a_token_has_no_spaces() -> None:
    validate_credential("token", "glpat-" + "x" * 20)
    for bad in ("", "two words", "line\nbreak", "tökén", "x" * 4_097, "a\0b"):
        with pytest.raises(Problem) as problem:
            validate_credential("token", bad)
        assert problem.value.code == "invalid_credential"
        assert not bad or bad not in problem.value.message
    with pytest.raises(Problem, match="enter its App ID, installation ID and private key"):
        validate_credential("token", "-----BEGIN RSA PRIVATE KEY-----")


def test_a_new_connection_does_not_print_its_credential() -> None:
    assert "ghp_x" not in repr(NewConnection(platform="github", credential="ghp_x"))


@pytest.mark.parametrize(
    "name",
    ["acme/shop", "acme/.github", "a/b/c/d", "Acme_1/-odd-.-", "a/...", "a/b.", "0/0", "a/b..c"],
)
def test_names_of_repositories_on_platforms(name: str) -> None:
    assert validate_platform_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("shop", "", "/", "a/", "/a", "a//b", "a/.", "a/..", "../b", "a/../b", "a/b c", "a/b\n"),
        *("a/b?c", "a/b#c", "a\\b/c", "a/%2e%2e", "ä/b", "a/" + "b" * 256, "/".join("a" * 23)),
    ],
)
def test_names_that_no_platform_has(name: str) -> None:
    with pytest.raises(Problem) as problem:
        validate_platform_name(name)
    assert problem.value.code == "invalid_name"
