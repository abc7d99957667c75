"""PyPI's simple index, in JSON (PEP 691) or HTML (PEP 503): versions are in names of files."""

import html
import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

import msgspec
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from agentjobs.advisories.registries.api import MIB, Body, RegistryApi, as_text, decode, segment
from agentjobs.advisories.registries.versions import Published, PublishedVersion

_JSON = "application/vnd.pypi.simple.v1+json"
_HTML = "application/vnd.pypi.simple.v1+html"
# Eggs and installers for Windows are left out: nothing installs them any more.
_ENDINGS = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ANCHOR = re.compile(r"<a(?=[\s>])", re.IGNORECASE)
# Possessive, and read on from where the last one ended: no page makes this take long.
_ATTRIBUTE = re.compile(
    r"""\s*+([^\s"'<>=]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'<>=]++)))?+"""
)


class _File(msgspec.Struct):
    filename: str
    hashes: dict[str, str] = {}
    yanked: bool | str = False


class _Page(msgspec.Struct):
    files: list[_File] = []


def path_of(name: str) -> str:
    return f"/{segment(canonicalize_name(name))}/"


def read(name: str, content_type: str, body: Body) -> Published:
    is_json = content_type.partition(";")[0].strip().lower().endswith("json")
    files = decode(body, _Page).files if is_json else _files(as_text(body))
    return Published(tuple(_versions(canonicalize_name(name), files)))


def _files(page: str) -> Iterator[_File]:
    for anchor in _ANCHOR.finditer(page):
        attributes = dict(_attributes(page, anchor.end()))
        filename, fragment = _name_and_fragment(attributes.get("href", ""))
        kind, _, digest = fragment.partition("=")
        yield _File(filename, {kind: digest}, "data-yanked" in attributes)


def _attributes(page: str, place: int) -> Iterator[tuple[str, str]]:
    while (found := _ATTRIBUTE.match(page, place)) is not None:
        place = found.end()
        value = next((group for group in found.groups()[1:] if group is not None), "")
        yield found[1].lower(), html.unescape(value)


def _name_and_fragment(href: str) -> tuple[str, str]:
    address, _, fragment = href.strip().partition("#")
    return unquote(address.partition("?")[0].rpartition("/")[2]), fragment


def _versions(name: str, files: Iterable[_File]) -> Iterator[PublishedVersion]:
    """A version is yanked when each of its files is."""
    by_version: dict[str, list[_File]] = {}
    for file in files:
        version = version_in(name, file.filename)
        if version is not None:
            by_version.setdefault(version, []).append(file)
    for version, of_version in by_version.items():
        # An empty reason yanks like any other; only False and absence do not.
        yanked = all(file.yanked is not False for file in of_version)
        yield PublishedVersion(version, yanked, tuple(_hashes(of_version)))


def _hashes(files: Iterable[_File]) -> Iterator[str]:
    for file in files:
        digest = file.hashes.get("sha256", "").lower()
        if _SHA256.fullmatch(digest):
            yield f"sha256:{digest}"


def version_in(name: str, filename: str) -> str | None:
    """In its normal form, because a wheel and its source may spell it differently."""
    ending = next((one for one in _ENDINGS if filename.lower().endswith(one)), None)
    if ending is None:
        return None
    stem = filename[: -len(ending)]
    rest = _after_name(name, stem)
    if rest is None:
        return None
    if ending == ".whl":
        rest = rest.partition("-")[0].replace("_", "-")
    try:
        return str(Version(rest))
    except InvalidVersion:
        return None


def _after_name(name: str, stem: str) -> str | None:
    """A name in an old file may have hyphens itself, so the first one need not be its end."""
    place = stem.find("-")
    while place > 0:
        if len(normal := canonicalize_name(stem[:place])) >= len(name):
            return stem[place + 1 :] if normal == name else None
        place = stem.find("-", place + 1)
    return None


PYPI = RegistryApi(
    path_of=path_of,
    read=read,
    accept=f"{_JSON}, {_HTML};q=0.5, text/html;q=0.1",
    most_bytes=48 * MIB,
)
