"""The operator's certificates as agents see them: one bundle, and the variables that name it."""

import dataclasses
import ssl
from pathlib import Path

from agentjobs.sandbox.protocol import SandboxTask

BUNDLE_FILE = "certificates.pem"

# Each client reads a variable of its own.
_VARIABLES = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("GIT_SSL_CAINFO", "PIP_CERT", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT"),
)


def make_bundle(ca_file: Path, directory: Path) -> Path:
    """The system's certificates and the operator's: most clients take one file instead of theirs.

    Raises OSError when `ca_file` cannot be read.
    """
    own = ca_file.read_bytes()
    system = ssl.get_default_verify_paths().cafile
    others = Path(system).read_bytes() if system else b""
    bundle = directory / BUNDLE_FILE
    bundle.write_bytes(others.rstrip() + b"\n" + own)
    bundle.chmod(0o644)
    return bundle


def trusting(task: SandboxTask, bundle: Path | None) -> SandboxTask:
    if bundle is None:
        return task
    return dataclasses.replace(
        task,
        environment=dict.fromkeys(_VARIABLES, str(bundle)) | dict(task.environment),
        read_only=(*task.read_only, bundle),
    )
