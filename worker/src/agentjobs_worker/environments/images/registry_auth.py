"""Credentials of registries, as Docker's configuration file has them. Pure."""

import base64
import json
from collections.abc import Iterable, Sequence

from agentjobs_runtime.environments.images.model import RegistryCredential
from agentjobs_runtime.environments.images.reference import Reference


def credentials_for(
    reference: Reference, credentials: Iterable[RegistryCredential]
) -> list[RegistryCredential]:
    return [credential for credential in credentials if credential.host == reference.host]


def auth_file(credentials: Sequence[RegistryCredential]) -> bytes:
    entries = {
        credential.host: {"auth": _encode(credential.username, credential.password)}
        for credential in credentials
    }
    return json.dumps({"auths": entries}).encode()


def _encode(username: str, password: str) -> str:
    return base64.b64encode(f"{username}:{password}".encode()).decode()
