"""Credentials of registries, as Docker's configuration file has them. Pure."""

import base64
import json
from collections.abc import Iterable, Sequence

from agentjobs_runtime.environments.images.model import RegistryCredential
from agentjobs_runtime.environments.images.reference import Reference


def credentials_for(
    reference: Reference, credentials: Iterable[RegistryCredential]
) -> list[RegistryCredential]:
    return [each for each in credentials if each.host == reference.host]


def auth_file(credentials: Sequence[RegistryCredential]) -> bytes:
    entries = {
        each.host: {"auth": base64.b64encode(f"{each.username}:{each.password}".encode()).decode()}
        for each in credentials
    }
    return json.dumps({"auths": entries}).encode()
