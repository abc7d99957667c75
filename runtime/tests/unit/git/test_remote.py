import pytest

from agentjobs_runtime.git.remote import (
    Remote,
    is_host_unreachable,
    is_temporary_failure,
    parse_remote,
    strip_credentials,
)


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


@pytest.mark.parametrize(
    "reason",
    [
        "Failed to connect to host port 443: Connection refused",
        "The requested URL returned error: 502",
        "Received HTTP code 502 from proxy after CONNECT",
        "CONNECT tunnel failed, response 503",
        "gnutls_handshake() failed: The TLS connection was non-properly terminated.",
        "GnuTLS recv error (-54): Error in the pull function.",
        "OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to host:443",
        "OpenSSL SSL_read: error:0A000126:SSL routines::unexpected eof while reading",
        "RPC failed; curl 18 transfer closed with outstanding read data remaining",
        "the remote end hung up upon initial contact",
    ],
)
def test_a_connection_that_is_cut_anywhere_may_work_the_next_time(reason: str) -> None:
    assert is_temporary_failure(f"fatal: unable to access 'https://host/x/': {reason}")


@pytest.mark.parametrize(
    "reason",
    [
        "gnutls_handshake() failed: Error in the certificate verification.",
        "server certificate verification failed. CAfile: none CRLfile: none",
        "The requested URL returned error: 403",
        "CONNECT tunnel failed, response 403",
        "repository 'https://host/x/' not found",
    ],
)
def test_a_refusal_is_not_temporary(reason: str) -> None:
    assert not is_temporary_failure(f"fatal: unable to access 'https://host/x/': {reason}")


@pytest.mark.parametrize(
    "reason",
    [
        "gnutls_handshake() failed: Error in the certificate verification.",
        "server certificate verification failed. CAfile: none CRLfile: none",
        "SSL certificate problem: unable to get local issuer certificate",
        "SSL: no alternative certificate subject name matches target host name '127.0.0.1'",
    ],
)
def test_the_operator_can_repair_the_certificate_of_the_service_itself(reason: str) -> None:
    stderr = f"fatal: unable to access 'https://host/x/': {reason}"
    assert Remote("https://host/x", is_of_operator=True).is_temporary_failure(stderr)
    assert not Remote("https://host/x").is_temporary_failure(stderr)
    assert is_host_unreachable(stderr)
