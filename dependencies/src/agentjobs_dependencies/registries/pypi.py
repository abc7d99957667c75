"""PyPI's simple index in JSON (PEP 691) or HTML (PEP 503); versions come from file names."""

import html
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import unquote

import msgspec
from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename
from packaging.version import InvalidVersion, Version

from agentjobs_dependencies.registries.api import MIB, Body, RegistryApi, as_text, decode, segment
from agentjobs_dependencies.registries.versions import (
    InvalidResponse,
    Published,
    PublishedVersion,
    range_text,
    time_ms,
)

_JSON = "application/vnd.pypi.simple.v1+json"
_HTML = "application/vnd.pypi.simple.v1+html"
# More than any package has: without a limit, a page of empty links would take minutes.
_MAX_FILES = 300_000
_MAX_ATTRIBUTES = 50
# Longer than any file system accepts.
_MAX_FILENAME_LENGTH = 512
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ANCHOR = re.compile(r"<a(?=[\s>])", re.IGNORECASE)
# Possessive, and continues where the last match ended: linear time for any page.
_ATTRIBUTE = re.compile(
    r"""\s*+([^\s"'<>=]++)(?>(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'<>=]++)))?)"""
)


class _File(msgspec.Struct, rename="kebab"):
    filename: str
    hashes: dict[str, str] = {}
    yanked: bool | str = False
    requires_python: Any = None
    upload_time: Any = None


class _Page(msgspec.Struct):
    files: list[_File] = []


def path_for(name: str) -> str:
    return f"/{segment(canonicalize_name(name))}/"


def read(name: str, content_type: str, body: Body) -> Published:
    is_json = content_type.partition(";")[0].strip().lower().endswith("json")
    files = decode(body, _Page).files if is_json else _files(as_text(body))
    return Published(tuple(_versions(canonicalize_name(name), files)))


def _files(page: str) -> Iterator[_File]:
    for anchor in _ANCHOR.finditer(page):
        attributes = dict(islice(_attributes(page, anchor.end()), _MAX_ATTRIBUTES))
        filename, fragment = _name_and_fragment(attributes.get("href", ""))
        kind, _, digest = fragment.partition("=")
        yield _File(
            filename,
            {kind: digest},
            "data-yanked" in attributes,
            attributes.get("data-requires-python"),
            attributes.get("data-upload-time"),
        )


def _attributes(page: str, position: int) -> Iterator[tuple[str, str]]:
    while (match := _ATTRIBUTE.match(page, position)) is not None:
        position = match.end()
        value = next((group for group in match.groups()[1:] if group is not None), "")
        try:
            yield match[1].lower(), html.unescape(value)
        except ValueError:
            raise InvalidResponse("a character reference has too many digits") from None


def _name_and_fragment(href: str) -> tuple[str, str]:
    url, _, fragment = href.strip().partition("#")
    return unquote(url.partition("?")[0].rpartition("/")[2]), fragment


def _versions(name: str, files: Iterable[_File]) -> Iterator[PublishedVersion]:
    """A version is yanked if all of its files are."""
    by_version: dict[str, list[_File]] = {}
    for count, file in enumerate(files):
        if count >= _MAX_FILES:
            raise InvalidResponse(f"it lists more than {_MAX_FILES} files")
        version = version_from_filename(name, file.filename)
        if version is not None:
            by_version.setdefault(version, []).append(file)
    for version, version_files in by_version.items():
        # An empty reason also means yanked; only False and absence do not.
        yanked = all(file.yanked is not False for file in version_files)
        ranges = (range_text(file.requires_python) for file in version_files)
        times = [at for file in version_files if (at := time_ms(file.upload_time)) is not None]
        yield PublishedVersion(
            version,
            yanked,
            tuple(_hashes(version_files)),
            requires=next(filter(None, ranges), ""),
            published_at=min(times, default=None),
        )


def _hashes(files: Iterable[_File]) -> Iterator[str]:
    for file in files:
        digest = file.hashes.get("sha256", "").lower()
        if _SHA256.fullmatch(digest):
            yield f"sha256:{digest}"


def version_from_filename(name: str, filename: str) -> str | None:
    """Normalized, because wheels and source distributions may spell it differently."""
    if len(filename) > _MAX_FILENAME_LENGTH:
        return None
    try:
        if not filename.endswith(".whl"):
            own_name, version = parse_sdist_filename(filename)
            return str(version) if own_name == name else None
        # Without its tags, which may be a combination of many.
        wheel_name, text, *_ = (*filename.split("-", 2), "", "")
        is_own = canonicalize_name(wheel_name) == name
        return str(Version(text.replace("_", "-"))) if is_own else None
    except (InvalidSdistFilename, InvalidVersion):
        return None


PYPI = RegistryApi(
    path_for=path_for,
    read=read,
    accept=f"{_JSON}, {_HTML};q=0.5, text/html;q=0.1",
    max_bytes=48 * MIB,
)
