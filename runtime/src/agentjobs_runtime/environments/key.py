"""What decides whether a snapshot fits: the definition, its files and the image. Pure functions."""

import hashlib
from collections.abc import Mapping

import msgspec

from agentjobs_runtime.environments.definition import EnvironmentDefinition

# Part of every key. Raise it when snapshots of earlier versions can no longer be used.
FORMAT = 1
MAX_FILES = 200
LOCK_FILES = frozenset(
    {
        *("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.txt", "pylock.toml"),
        *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml"),
        *("bun.lock", "bun.lockb", "deno.lock", "go.sum", "Cargo.lock", "Gemfile.lock"),
        *("composer.lock", "gradle.lockfile", "mix.lock", "pubspec.lock", "packages.lock.json"),
    }
)


class CacheFile(msgspec.Struct, frozen=True, order=True):
    """A file whose content decides whether setup runs again."""

    path: str
    object_id: str


class EnvironmentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An environment of one commit. A higher `generation` retires all snapshots before."""

    definition: EnvironmentDefinition
    files: tuple[CacheFile, ...] = ()
    generation: int = 0

    @property
    def images(self) -> tuple[str, ...]:
        """The image of the environment and those of its services, each once."""
        services = (service.image for service in self.definition.services)
        return tuple(dict.fromkeys(filter(None, (self.definition.image, *services))))

    @property
    def has_tags(self) -> bool:
        """Whether an image is named by a tag, which its registry may move."""
        return any("@sha256:" not in image for image in self.images)

    @property
    def needs_build(self) -> bool:
        return bool(self.definition.setup or self.images)

    @property
    def request_key(self) -> str:
        """The part of the key that is known without asking a registry."""
        definition = self.definition
        parts = [FORMAT, definition.setup, sorted(definition.variables.items()), self.images]
        return _digest([*parts, sorted(self.files), self.generation])

    def key(self, digests: Mapping[str, str]) -> str:
        """`digests` of the images by their references."""
        return _digest([self.request_key, sorted(digests.items())])


def count_matching(files: tuple[CacheFile, ...], others: tuple[CacheFile, ...]) -> int:
    return len(set(files) & set(others))


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()
