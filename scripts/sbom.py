"""Describes a release as a CycloneDX document: its packages, and what their lock file pins.

Deterministic: the same files give the same document.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from lock_graph import SERVER, Pin, runtime_pins

NPM_CLIENT = "@agentjobs/client"
_SERIAL_NUMBERS = uuid.UUID("2f0a9d0a-7f5e-4c55-9f0e-2f0c9a0f3b11")


def render_sbom(lock: str, version: str, packages: Mapping[str, Path], epoch: int) -> str:
    """`packages` are the files of this repository's packages, by their names."""
    own = {name: _own_component(name, version, file) for name, file in packages.items()}
    pins = runtime_pins(lock)
    locked = {name: _locked_component(pin) for name, pin in pins.items()}
    bom = Bom(components=[*own.values(), *locked.values()])
    bom.components.remove(own[SERVER])
    bom.metadata.component = own[SERVER]
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    components = own | locked
    for name, component in components.items():
        required = [locked[pin.name] for pin in pins.values() if name in pin.required_by]
        if name == SERVER:
            required += [part for part in own.values() if part.name.startswith(f"{SERVER}-")]
        bom.register_dependency(component, required)
    hashes = [each.content for component in own.values() for each in component.hashes]
    bom.serial_number = uuid.uuid5(_SERIAL_NUMBERS, "".join([lock, version, str(epoch), *hashes]))
    return _render(bom)


def _render(bom: Bom) -> str:
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"the SBOM does not satisfy the schema of CycloneDX 1.6: {error}")
    return text


def _own_component(name: str, version: str, file: Path) -> Component:
    kind = ComponentType.APPLICATION if name == SERVER else ComponentType.LIBRARY
    namespace, _, short = name.rpartition("/")
    url = PackageURL("npm" if namespace else "pypi", namespace or None, short, version)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Component(
        type=kind,
        name=short,
        group=namespace or None,
        version=version,
        purl=url,
        bom_ref=str(url),
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
    )


def _locked_component(pin: Pin) -> Component:
    url = PackageURL("pypi", None, pin.name, pin.version)
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        purl=url,
        bom_ref=str(url),
    )
