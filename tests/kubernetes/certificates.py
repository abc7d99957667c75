"""The authority of a test cluster, its certificates, and the kubeconfig files made of them."""

import base64
import datetime
import ipaddress
import json
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAYS = 30


class Authority:
    """Writes NAME.crt and NAME.key into `directory`; its own are ca.crt and ca.key."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("agentjobs-test")
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        self._write("ca", self._key, builder.sign(self._key, hashes.SHA256()))

    def issue(
        self, name: str, user: str, *, group: str = "", addresses: tuple[str, ...] = ()
    ) -> None:
        """`addresses` are the names and IP addresses of a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(user, group), self._name, key.public_key())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
        if addresses:
            names = x509.SubjectAlternativeName(list(map(_alternative_name, addresses)))
            builder = builder.add_extension(names, False)
        self._write(name, key, builder.sign(self._key, hashes.SHA256()))

    def write_kubeconfig(self, name: str, user: str, server: str, *, group: str = "") -> Path:
        """With the certificates in it, so that the file works wherever it is copied to."""
        self.issue(name, user, group=group)
        path = self._directory / f"{name}.kubeconfig"
        path.write_text(json.dumps(self._kubeconfig(name, server), indent=1))
        path.chmod(0o600)
        return path

    def write_signing_key(self, name: str) -> None:
        """A key pair for the tokens of service accounts."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self._directory / f"{name}.key").write_bytes(_key_bytes(key))
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (self._directory / f"{name}.pub").write_bytes(public)

    def _kubeconfig(self, name: str, server: str) -> dict[str, object]:
        cluster = {"server": server, "certificate-authority-data": self._base64("ca.crt")}
        user = {
            "client-certificate-data": self._base64(f"{name}.crt"),
            "client-key-data": self._base64(f"{name}.key"),
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }

    def _base64(self, file: str) -> str:
        return base64.b64encode((self._directory / file).read_bytes()).decode()

    def _write(self, name: str, key: ec.EllipticCurvePrivateKey, leaf: x509.Certificate) -> None:
        path = self._directory / f"{name}.key"
        path.touch(0o600)
        path.write_bytes(_key_bytes(key))
        certificate = leaf.public_bytes(serialization.Encoding.PEM)
        (self._directory / f"{name}.crt").write_bytes(certificate)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
    )


def _name(user: str, group: str = "") -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _alternative_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _key_bytes(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
