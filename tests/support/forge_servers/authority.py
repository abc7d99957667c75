"""The CA that issues the certificates of all contract servers of a test process."""

import ssl
from functools import lru_cache
from pathlib import Path

import trustme


def authorities(directory: Path) -> Path:
    """A file with the CA certificate."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "authorities.pem"
    _authority().cert_pem.write_to_path(str(file))
    return file


@lru_cache(maxsize=1)
def _authority() -> trustme.CA:
    return trustme.CA()


@lru_cache(maxsize=1)
def tls() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _authority().issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context


def issue_certificate(certificate: Path, key: Path) -> None:
    """For a server in another process."""
    issued = _authority().issue_cert("127.0.0.1", "localhost")
    issued.private_key_pem.write_to_path(str(key))
    for part in issued.cert_chain_pems:
        part.write_to_path(str(certificate), append=True)
