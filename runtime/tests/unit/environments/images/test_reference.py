"""References to images: how they are read, and which are refused."""

import pytest

from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_runtime.environments.images.reference import parse_reference

DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.12", "docker.io/library/python:3.12"),
        ("acme/build", "docker.io/acme/build:latest"),
        ("registry.example.com/acme/build:12", "registry.example.com/acme/build:12"),
        ("Registry.Example.com/build", "registry.example.com/build:latest"),
        ("registry:5000/a/b/c:x", "registry:5000/a/b/c:x"),
        ("10.1.2.3:5000/a", "10.1.2.3:5000/a:latest"),
        (f"ghcr.io/acme/build:12@{DIGEST}", f"ghcr.io/acme/build@{DIGEST}"),
        (" ghcr.io/acme/build ", "ghcr.io/acme/build:latest"),
    ],
)
def test_a_reference_is_completed_as_docker_does(text: str, full: str) -> None:
    reference = parse_reference(text)
    assert str(reference) == full
    assert parse_reference(full) == reference
    assert str(reference.pinned(DIGEST)) == f"{reference.name}@{DIGEST}"


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", ":", "@", "a:", "A", "a b", "a/../b", "a//b", "-x", "--help", "a\nb", "a" * 501),
        *(
            "https://ghcr.io/acme/build",
            "user:pass@ghcr.io/a",
            "ghcr.io/",
            "ghcr.io:0/a",
            "x@md5:1",
        ),
        *("[::1]:5000/a", "exam ple.com/a", "*.example.com/a", "a.b:99999/c", f"a:{'t' * 129}"),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ImageError, match="is not a reference to an image"):
        parse_reference(text)


@pytest.mark.parametrize("host", ["localhost", "localhost:5000", "a.localhost", "127.0.0.1:5000"])
def test_the_sandbox_itself_is_no_registry(host: str) -> None:
    with pytest.raises(ImageError, match="write the host's name"):
        parse_reference(f"{host}/acme/build")
