"""The operator's certificates for agents: one bundle, and the variables that name it."""

import dataclasses
import errno
import ssl
from collections.abc import Sequence
from pathlib import Path

from agentjobs_runtime.private_files import replace_private_file
from agentjobs_worker.sandbox.protocol import SandboxTask

BUNDLE_FILE = "certificates.pem"

# Each client reads its own variable.
_VARIABLES = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("GIT_SSL_CAINFO", "PIP_CERT", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT"),
)
_SYSTEM_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)


def create_bundle(
    ca_file: Path, directory: Path, system_files: Sequence[Path] | None = None
) -> Path:
    """Combine the system's certificates and the operator's, because most clients read one file.

    Raises OSError if one of them cannot be read or the bundle cannot be written.
    """
    operator_certificates = ca_file.read_bytes()
    system = _first_file(known_system_files() if system_files is None else system_files)
    bundle = directory / BUNDLE_FILE
    # Atomically, because running agents have the file open or mounted.
    replace_private_file(bundle, system.read_bytes().rstrip() + b"\n" + operator_certificates)
    bundle.chmod(0o644)
    return bundle


def known_system_files() -> tuple[Path, ...]:
    """Where systems keep certificates. Ignores SSL_CERT_FILE, which is for the worker itself."""
    return tuple(map(Path, (*_SYSTEM_FILES, ssl.get_default_verify_paths().openssl_cafile)))


def with_certificates(task: SandboxTask, bundle: Path | None) -> SandboxTask:
    if bundle is None:
        return task
    return dataclasses.replace(
        task,
        environment=dict.fromkeys(_VARIABLES, str(bundle)) | dict(task.environment),
        read_only=(*task.read_only, bundle),
    )


def _first_file(files: Sequence[Path]) -> Path:
    for file in files:
        if file.is_file():
            return file
    raise FileNotFoundError(
        errno.ENOENT,
        "the system's certificates are in none of the known places "
        f"({', '.join(map(str, files))}): install the package ca-certificates",
    )
