"""What a worker and the supervisor of one run know each other by: made for the run, and gone with
it.
"""

import datetime
import hashlib
import secrets
import ssl
from collections.abc import Sequence

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

SUPERVISOR_PORT = 8463
SERVER_NAME = "agentjobs-supervisor"

_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, SERVER_NAME)])
# Only the exact certificate is accepted, so its dates mean nothing; clocks of nodes may be wrong.
_VALID = (
    datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC),
)


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor proves that it has `key`; the worker, that it has `token`."""

    certificate: str
    key: str
    token: str

    @property
    def certificate_der(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.certificate)

    def __repr__(self) -> str:
        return "Credentials(...)"

    def supervisor_variable(self, orphan_seconds: float, directories: Sequence[str]) -> str:
        """The value of AGENTJOBS_SUPERVISOR in the pod, which never learns the token."""
        return msgspec.json.encode(
            {
                "certificate": self.certificate,
                "key": self.key,
                "token_sha256": hashlib.sha256(self.token.encode()).hexdigest(),
                "port": SUPERVISOR_PORT,
                "orphan_seconds": orphan_seconds,
                "directories": directories,
            }
        ).decode()


def new_credentials() -> Credentials:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_VALID[0])
        .not_valid_after(_VALID[1])
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Credentials(
        certificate=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key=private.decode(),
        token=secrets.token_urlsafe(32),
    )
