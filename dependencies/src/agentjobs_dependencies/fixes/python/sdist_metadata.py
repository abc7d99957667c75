"""Reads the requirements in a published source distribution, without building it.

Build backends write them when they make the archive: setuptools to `requires.txt`, where uv does
not look for them.
"""

import io
import re
import tarfile
import urllib.parse
import zipfile
from collections.abc import Iterator
from functools import cache

from agentjobs_dependencies.fixes.download import DAMAGED_FILE, download
from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.versions.pypi import is_same, normalize_name

_MAX_BYTES = 64 * 1024 * 1024
_MAX_PAGE_BYTES = 48 * 1024 * 1024
_MAX_UNPACKED_BYTES = 1024**3
_MAX_METADATA_BYTES = 1024 * 1024
# Up to the next tag, because a page may have many that do not end.
_LINK = re.compile(r"<a\s[^<>]*?href=[\"']([^\"'<>\s]+)[\"']", re.IGNORECASE)
_SDIST = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)\.(?:tar\.gz|tgz|tar\.bz2|zip)")
# The metadata of the project itself; archives may contain others, for example for tests.
_EGG_INFO = re.compile(r"[^/]+/(?:[^/]+/)?[^/]+\.egg-info/(?P<file>requires\.txt|PKG-INFO)")
_SECTION = re.compile(r"\[(?P<extra>[^:\]]*)(?::(?P<marker>.*))?\]")


@cache
def fetch_requirements(registry: str, name: str, version: str) -> tuple[str, ...]:
    """Raises CannotFix if the archive does not have them."""
    url = _find_archive(registry, name, version)
    try:
        requirements = read_requirements(download(url, _MAX_BYTES), is_zip=url.endswith(".zip"))
    except DAMAGED_FILE as error:
        raise CannotFix(f"the archive of {name} {version} cannot be read: {error}") from None
    if requirements is None:
        raise CannotFix(f"the archive of {name} {version} does not say what it requires")
    return requirements


def read_requirements(archive: bytes, *, is_zip: bool = False) -> tuple[str, ...] | None:
    """None if the archive has no metadata of setuptools."""
    metadata = dict(_zip_files(archive) if is_zip else _tar_files(archive))
    return tuple(_parse(metadata.get("requires.txt", ""))) if metadata else None


def _find_archive(registry: str, name: str, version: str) -> str:
    page_url = f"{registry.rstrip('/')}/{normalize_name(name)}/"
    page = download(page_url, _MAX_PAGE_BYTES).decode("utf-8", "replace")
    for link in map(str, _LINK.findall(page)):
        url: str = urllib.parse.urljoin(page_url, link.replace("&amp;", "&")).partition("#")[0]
        file = _SDIST.fullmatch(urllib.parse.unquote(url.rpartition("/")[2]))
        if (
            url.startswith(("https://", "http://"))
            and file
            and normalize_name(file["name"]) == normalize_name(name)
            and is_same(file["version"], version)
        ):
            return url
    raise CannotFix(f"{name} {version} has no source distribution")


def _tar_files(content: bytes) -> Iterator[tuple[str, str]]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            # Tar archives are compressed as a whole, so all of it before a member is unpacked.
            if member.offset_data > _MAX_UNPACKED_BYTES:
                raise ValueError("it is too large")
            match = _EGG_INFO.fullmatch(member.name.removeprefix("./"))
            file = archive.extractfile(member) if match and member.isfile() else None
            if match and file:
                yield match["file"], file.read(_MAX_METADATA_BYTES).decode("utf-8", "replace")


def _zip_files(content: bytes) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            if match := _EGG_INFO.fullmatch(entry.filename):
                with archive.open(entry) as file:
                    yield match["file"], file.read(_MAX_METADATA_BYTES).decode("utf-8", "replace")


def _parse(text: str) -> Iterator[str]:
    """Parses setuptools' format: sections are extras, markers, or both."""
    condition = ""
    for line in map(str.strip, text.splitlines()):
        if section := _SECTION.fullmatch(line):
            extra = f"extra == '{section['extra']}'" if section["extra"] else ""
            marker = f"({section['marker']})" if section["marker"] else ""
            condition = " and ".join(part for part in (marker, extra) if part)
        elif line:
            yield f"{line} ; {condition}" if condition else line
