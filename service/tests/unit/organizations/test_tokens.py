import math

from agentjobs.organizations.tokens import (
    API_KEY_PREFIX,
    JOB_CREDENTIAL_PREFIX,
    is_well_formed,
    new_token,
    token_hash,
)


def test_a_token_is_recognized_by_prefix_and_checksum() -> None:
    token = new_token(API_KEY_PREFIX)
    assert is_well_formed(token, API_KEY_PREFIX)
    assert not is_well_formed(token, JOB_CREDENTIAL_PREFIX)


def test_the_checksum_detects_any_wrong_character() -> None:
    token = new_token(API_KEY_PREFIX)
    for position in range(len(token)):
        other = "x" if token[position] != "x" else "y"
        assert not is_well_formed(token[:position] + other + token[position + 1 :], API_KEY_PREFIX)


def test_a_token_has_at_least_160_random_bits() -> None:
    body = len(new_token(API_KEY_PREFIX)) - len(API_KEY_PREFIX) - 6
    assert body * math.log2(62) >= 160


def test_the_hash_does_not_contain_the_token() -> None:
    token = new_token(API_KEY_PREFIX)
    assert len(token_hash(token)) == 32
    assert token_hash(token) != token_hash(new_token(API_KEY_PREFIX))
