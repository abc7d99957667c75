"""Which ID tokens are accepted, and which claims identify the user."""

import base64
import functools
import hmac
import json

import pytest
from joserfc import jwk, jwt
from joserfc.jws import JWSRegistry

from agentjobs.web.openid.id_token import Expected, UnknownKey, verify_claims
from agentjobs.web.openid.identity import build_identity
from agentjobs.web.openid.tokens import Client, client_authentication
from agentjobs_runtime.problems import Problem

NOW = 1_800_000_000
ISSUER = "https://id.example.com"
SECRET = "the secret of the client, long enough for any digest"
EC = jwk.ECKey.generate_key("P-256", {"kid": "ec"})
PUBLISHED = (EC.as_dict(private=False), {"kty": "RSA", "kid": "rsa", "n": "", "e": ""})
EXPECTED = Expected(
    issuer=ISSUER,
    client_id="us",
    nonce="n",
    access_token="at",
    # Also algorithms that are never accepted.
    algorithms=("none", "HS256", "RS256", "ES256"),
    now_seconds=NOW,
)
CLAIMS = {"iss": ISSUER, "sub": "1", "aud": "us", "exp": NOW + 60, "iat": NOW, "nonce": "n"}


def sign(key=EC, alg="ES256", kid="ec", without=(), **changed) -> str:
    claims = {name: value for name, value in (CLAIMS | changed).items() if name not in without}
    header = {"alg": alg} if kid is None else {"alg": alg, "kid": kid}
    return jwt.encode(header, claims, key, registry=JWSRegistry(algorithms=[alg]))


@functools.cache
def rsa() -> jwk.RSAKey:
    return jwk.RSAKey.generate_key(2048, {"kid": "rsa"})


def with_rsa():
    return (PUBLISHED[0], rsa().as_dict(private=False))


def assert_refused(token: str, keys=PUBLISHED, expected=EXPECTED) -> None:
    with pytest.raises(Problem) as problem:
        verify_claims(token, keys, expected)
    assert problem.value.code == "sign_in_failed"


def test_a_valid_token_is_accepted():
    assert verify_claims(sign(), PUBLISHED, EXPECTED) == CLAIMS
    assert verify_claims(sign(rsa(), "RS256", "rsa"), with_rsa(), EXPECTED) == CLAIMS


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://evil.example.com"},
        {"iss": ISSUER + "/"},
        {"iss": [ISSUER]},
        {"sub": ""},
        {"sub": 1},
        {"sub": None},
        {"aud": "others"},
        {"aud": ["others"]},
        {"aud": "others", "azp": "us"},
        {"aud": []},
        {"aud": {"us": 1}},
        # With several audiences, `azp` must name the client.
        {"aud": ["us", "others"]},
        {"aud": ["us", "others"], "azp": "others"},
        {"azp": "others"},
        {"exp": NOW - 61},
        {"exp": "tomorrow"},
        {"exp": True},
        {"iat": NOW + 61},
        {"nbf": NOW + 61},
        {"nonce": "another"},
        {"nonce": ""},
        {"nonce": ["n"]},
        {"at_hash": "of another access token"},
        {"at_hash": 7},
    ],
    ids=str,
)
def test_a_token_with_a_wrong_claim_is_refused(changed):
    assert_refused(sign(**changed))


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_token_without_a_required_claim_is_refused(claim):
    assert_refused(sign(without=(claim,)))


def test_a_small_clock_difference_is_tolerated():
    verify_claims(sign(exp=NOW - 59, iat=NOW + 59), PUBLISHED, EXPECTED)


def test_a_token_with_several_audiences_needs_the_authorized_party():
    verify_claims(sign(aud=["us", "others"], azp="us"), PUBLISHED, EXPECTED)


@pytest.mark.filterwarnings("ignore:JWS algorithm")
def test_a_token_without_a_signature_is_refused_even_if_the_provider_declares_that():
    parts = [_b64(json.dumps(part)) for part in ({"alg": "none"}, CLAIMS)]
    assert_refused(".".join([*parts, ""]))
    assert_refused(".".join([*parts, sign().rpartition(".")[2]]))


def with_digest(key: bytes, kid: str) -> str:
    """Encodes the token by hand: libraries refuse to sign with a public key."""
    header = _b64(json.dumps({"alg": "HS256", "kid": kid}))
    signing_input = f"{header}.{_b64(json.dumps(CLAIMS))}"
    return f"{signing_input}.{_b64(hmac.digest(key, signing_input.encode(), 'sha256'))}"


def test_a_token_signed_with_a_public_value_is_refused():
    public = rsa().as_pem(private=False)
    published = json.dumps(rsa().as_dict(private=False)).encode()
    for known in (SECRET.encode(), public, published):
        assert_refused(with_digest(known, "rsa"), with_rsa())
    symmetric = {"kty": "oct", "kid": "o", "k": _b64(SECRET)}
    assert_refused(with_digest(SECRET.encode(), "o"), (*PUBLISHED, symmetric))


def test_an_algorithm_that_the_provider_does_not_declare_is_refused():
    assert_refused(sign(rsa(), "PS256", "rsa"), with_rsa())
    only_bad = Expected(
        issuer=ISSUER,
        client_id="us",
        nonce="n",
        access_token="at",
        algorithms=("none", "HS256"),
        now_seconds=NOW,
    )
    assert_refused(sign(), expected=only_bad)


def test_a_changed_token_is_refused():
    header, claims, signature = sign().split(".")
    assert_refused(f"{header}.{_b64(json.dumps(CLAIMS | {'sub': '2'}))}.{signature}")
    assert_refused(f"{header}.{claims}.{signature[:-4]}AAAA")


@pytest.mark.parametrize(
    ("kid", "keys"),
    [
        ("gone", PUBLISHED),
        ("ec", ()),
        ("rsa", PUBLISHED),
        ("ec", [{**PUBLISHED[0], "use": "enc"}]),
        ("ec", [{**PUBLISHED[0], "alg": "ES384"}]),
        (None, [PUBLISHED[0], {**PUBLISHED[0], "kid": "second"}]),
    ],
    ids=["gone", "none", "another kind", "for encryption", "for another algorithm", "which of two"],
)
def test_a_key_that_is_not_published_raises_unknown_key(kid, keys):
    with pytest.raises(UnknownKey):
        verify_claims(sign(kid=kid), keys, EXPECTED)


def test_without_a_key_id_the_only_key_of_its_kind_is_used():
    verify_claims(sign(kid=None), PUBLISHED, EXPECTED)


@pytest.mark.parametrize(
    "key",
    [
        {"kty": "EC", "kid": "ec"},
        {"kty": "EC", "kid": "ec", "crv": "P-256", "x": 1, "y": None},
        {"kty": "EC", "kid": "ec", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "kid": "ec", "crv": "none", "x": "AA", "y": "AA"},
        {"kty": "EC", "kid": "ec", "crv": "P-256", "x": "A" * 100_000, "y": "AA"},
    ],
    ids=lambda key: str(key)[:60],
)
def test_a_broken_key_is_refused(key):
    assert_refused(sign(), [key])


def test_a_broken_key_next_to_a_valid_one_is_ignored():
    verify_claims(sign(), ({"kty": "EC"}, {}, {"kid": ["ec"]}, *PUBLISHED), EXPECTED)


def _b64(data: str | bytes) -> str:
    raw = data.encode() if isinstance(data, str) else data
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def with_header(header: str) -> str:
    return f"{_b64(header)}.e30.AA"


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b.c.d.e",
        "🙂.🙂.🙂",
        "\ud800.x.x",
        with_header("[]"),
        with_header('["alg"]'),
        with_header("null"),
        with_header('{"alg": []}'),
        with_header('{"alg": "ES256", "kid": []}'),
        with_header('{"alg": "ES256", "crit": ["exp"], "kid": "ec"}'),
        with_header("[" * 100),
        with_header("[" * 100_000),
        "x" * 1_000_000,
    ],
    ids=lambda token: ascii(token[:40]),
)
def test_a_malformed_token_is_refused(token):
    assert_refused(token)


PERSON = {"sub": "1", "email": "ada@example.com", "email_verified": True, "name": "Ada"}


def test_the_identity_is_read_from_the_token():
    identity = build_identity(ISSUER, PERSON, {})
    assert (identity.issuer, identity.subject, identity.name) == (ISSUER, "1", "Ada")
    assert (identity.email, identity.email_verified) == ("ada@example.com", True)


def test_the_email_and_its_verification_come_from_one_source():
    identity = build_identity(
        ISSUER, {"sub": "1", "email_verified": True}, {"sub": "1", "email": "ada@example.com"}
    )
    assert (identity.email, identity.email_verified) == ("ada@example.com", False)


@pytest.mark.parametrize(
    ("claim", "verified"),
    [(True, True), ("true", True), (None, False), ("false", False), (["true"], False), ({}, False)],
)
def test_only_true_marks_an_email_as_verified(claim, verified):
    assert (
        build_identity(ISSUER, {**PERSON, "email_verified": claim}, {}).email_verified is verified
    )


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "x" * 256, "email": "ada@example.com"},
        {"sub": "a\nb", "email": "ada@example.com"},
    ],
    ids=lambda claims: str(claims)[:60],
)
def test_an_invalid_subject_is_refused(claims):
    with pytest.raises(Problem) as problem:
        build_identity(ISSUER, claims, {})
    assert problem.value.code == "sign_in_failed"


@pytest.mark.parametrize(
    "email",
    [
        None,
        ["ada@example.com"],
        "ada",
        "ada@example.com\r\nBcc: eve@example.com",
        "a" * 300 + "@example.com",
    ],
    ids=lambda email: str(email)[:40],
)
def test_an_invalid_email_is_ignored_and_never_verified(email):
    identity = build_identity(ISSUER, {**PERSON, "email": email}, {})
    assert (identity.email, identity.email_verified) == ("", False)


def test_userinfo_about_another_subject_is_refused():
    with pytest.raises(Problem):
        build_identity(ISSUER, {"sub": "1"}, {"sub": "2", "email": "eve@example.com"})
    with pytest.raises(Problem):
        build_identity(ISSUER, {"sub": "1"}, {"email": "eve@example.com"})


def test_a_name_is_truncated_and_printable():
    assert build_identity(ISSUER, {**PERSON, "name": "A\u202eda\n" + "a" * 999}, {}).name == (
        "Ada" + "a" * 197
    )
    assert (
        build_identity(ISSUER, {**PERSON, "name": {}, "preferred_username": "al"}, {}).name == "al"
    )


def test_the_client_authenticates_with_a_declared_method():
    client = Client(id="a:b", secret="c d", redirect_uri="")
    basic = {"Authorization": "Basic " + base64.b64encode(b"a%3Ab:c+d").decode()}
    assert client_authentication(client, ("client_secret_basic", "client_secret_post"))[0] == basic
    assert client_authentication(client, ())[0] == basic
    assert client_authentication(client, ("private_key_jwt", "client_secret_post")) == (
        {},
        {"client_id": "a:b", "client_secret": "c d"},
    )
    public = Client(id="a:b", secret="", redirect_uri="")
    assert client_authentication(public, ("client_secret_basic",)) == ({}, {"client_id": "a:b"})
    assert "c d" not in repr(client)
