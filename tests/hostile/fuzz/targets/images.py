"""Targets: what registries send, and the references that repositories contain."""

from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_runtime.environments.images.reference import parse_reference
from agentjobs_worker.environments.images.manifest import Index, choose_manifest, parse_config
from agentjobs_worker.environments.images.manifest import parse_document as _parse_document
from tests.hostile.fuzz.documents import json_documents, texts
from tests.hostile.fuzz.target import Target

_DIGEST = f"sha256:{'a' * 64}"
_OCI = "application/vnd.oci.image"
_MANIFEST = {
    "schemaVersion": 2,
    "mediaType": f"{_OCI}.manifest.v1+json",
    "config": {"mediaType": f"{_OCI}.config.v1+json", "digest": _DIGEST, "size": 9},
    "layers": [{"mediaType": f"{_OCI}.layer.v1.tar+gzip", "digest": _DIGEST, "size": 9}],
}
_INDEX = {
    "schemaVersion": 2,
    "manifests": [
        {
            "mediaType": f"{_OCI}.manifest.v1+json",
            "digest": _DIGEST,
            "size": 9,
            "platform": {"os": "linux", "architecture": "amd64"},
        }
    ],
}
_CONFIG = {
    "os": "linux",
    "architecture": "amd64",
    "config": {"Env": ["A=1"], "Cmd": ["sh"], "Entrypoint": ["/e"], "WorkingDir": "/"},
}


def _read_document(document: bytes) -> object:
    parsed = _parse_document(document)
    return choose_manifest(parsed, "amd64") if isinstance(parsed, Index) else parsed


TARGETS = (
    Target(
        "image manifest",
        json_documents(_MANIFEST, _INDEX),
        _read_document,
        (ImageError,),
        frames=("{}", '{"layers": {}'),
    ),
    Target(
        "image configuration",
        json_documents(_CONFIG),
        lambda document: parse_config(document, "amd64"),
        (ImageError,),
    ),
    Target(
        "image reference",
        texts("registry.example.com:5000/acme/build:12", f"python@{_DIGEST}"),
        parse_reference,
        (ImageError,),
        is_text=True,
    ),
)
