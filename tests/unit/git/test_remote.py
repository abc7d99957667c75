import pytest

from agentjobs.git.remote import parse_remote, strip_credentials


@pytest.mark.parametrize(
    ("address", "url", "header"),
    [
        ("https://host/a/b", "https://host/a/b", None),
        ("https://me:secret@host/a/b", "https://host/a/b", "Basic bWU6c2VjcmV0"),
        ("https://me:p@ss@host/a@b", "https://host/a@b", "Basic bWU6cEBzcw=="),
        ("https://me:p%2Fss@host:8443/a", "https://host:8443/a", "Basic bWU6cC9zcw=="),
        ("https://token@host/a", "https://host/a", "Basic dG9rZW46"),
    ],
)
def test_user_and_password_in_an_address_become_a_header(
    address: str, url: str, header: str | None
) -> None:
    remote = parse_remote(address)
    assert (remote.url, remote.authorization) == (url, header)
    assert "cret" not in repr(remote)


def test_credentials_are_removed_from_any_text() -> None:
    text = "fatal: unable to access 'https://me:p@ss@host/x/': see https://host/y@z"
    assert strip_credentials(text) == (
        "fatal: unable to access 'https://host/x/': see https://host/y@z"
    )
