"""Which guesses count together."""

import pytest

from agentjobs.organizations.throttle import Attempt, pair_prefix, sign_in_warnings
from tests.support.users import settings_of


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.7", "192.0.2.7", True),
        ("192.0.2.7", "192.0.2.8", False),
        ("192.0.2.7", "::ffff:192.0.2.7", True),
        ("2001:db8::1", "2001:db8::ffff:0:0:9", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("a socket", "another\0", False),
    ],
)
def test_an_ipv6_address_counts_as_its_network(one, other, is_same):
    subjects = [Attempt("", address).address_subject for address in (one, other)]
    assert (subjects[0] == subjects[1]) == is_same
    assert "\0" not in f"{subjects}"


def test_an_email_address_counts_in_any_spelling_and_is_stored_hashed():
    subject = Attempt("ada@example.com", None).email_subject
    assert Attempt(" ADA@Example.com", None).email_subject == subject
    assert Attempt("bob@example.com", None).email_subject != subject
    assert "ada" not in subject
    assert Attempt("\udc80\0", None).email_subject.isascii()


def test_failures_count_per_email_address_and_network():
    one = Attempt("ada@example.com", "2001:db8::1").pair_subject
    assert Attempt(" ADA@example.com", "2001:db8::2").pair_subject == one
    others = [("bob@example.com", "2001:db8::1"), ("ada@example.com", "2001:db8:0:1::1")]
    others.append(("ada@example.com", None))
    for email, address in others:
        assert Attempt(email, address).pair_subject != one
    assert one.startswith(pair_prefix("ada@example.com"))
    assert "ada" not in one


def test_a_proxy_that_is_not_trusted_causes_a_warning():
    https = {"public_url": "https://jobs.example.com"}
    (warning,) = sign_in_warnings(settings_of(**https))
    assert "AGENTJOBS_TRUSTED_PROXIES" in warning
    assert sign_in_warnings(settings_of(**https, trusted_proxies="10.0.0.0/8")) == []
    assert sign_in_warnings(settings_of(public_url="http://127.0.0.1:8080")) == []
    assert sign_in_warnings(settings_of()) == []
