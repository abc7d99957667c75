"""The Java release that a Maven project compiles for, and the one that a published jar needs."""

import io
import re
import struct
import zipfile
from itertools import islice
from pathlib import Path

from agentjobs_dependencies.fixes import pom
from agentjobs_dependencies.fixes.download import DAMAGED_FILE, download
from agentjobs_dependencies.fixes.model import CannotFix, Fix

_PROPERTIES = ("maven.compiler.release", "maven.compiler.target", "java.version")
_RELEASE = re.compile(r"(?:1\.)?(\d+)")
# The version of a class file minus this is the Java release.
_FIRST_CLASS_VERSION = 44
_READ_CLASSES = 50
_MAX_JAR_BYTES = 64 * 1024**2


def supported_release(root: Path, manifest: str) -> int | None:
    """None if the project does not say it: Maven's default depends on its version."""
    try:
        poms = pom.load_with_parents(root, manifest)
    except CannotFix:
        return None
    configured = (
        element.text.strip()
        for file in poms
        for plugin in file.root.find_all("plugin")
        if plugin.value("artifactId") == "maven-compiler-plugin"
        for element in plugin.walk()
        if element.name in ("release", "target")
    )
    declared = (pom.property_value(name, poms) for name in _PROPERTIES)
    for value in (*configured, *declared):
        if match := _RELEASE.fullmatch(pom.resolve(value or "", poms)):
            return int(match[1])
    return None


def needed_release(fix: Fix, version: str) -> int | None:
    """None if there is no jar to read: a package may have other files only."""
    group, _, artifact = fix.package.partition(":")
    directory = f"{group.replace('.', '/')}/{artifact}/{version}"
    url = f"{fix.registry.rstrip('/')}/{directory}/{artifact}-{version}.jar"
    try:
        with zipfile.ZipFile(io.BytesIO(download(url, _MAX_JAR_BYTES))) as jar:
            return _read_release(jar)
    except (CannotFix, *DAMAGED_FILE):
        return None


def _read_release(jar: zipfile.ZipFile) -> int | None:
    """Classes for later releases are below META-INF; an older Java ignores module-info."""
    names = (
        name
        for name in jar.namelist()
        if name.endswith(".class")
        and not name.startswith("META-INF/")
        and not name.endswith("module-info.class")
    )
    releases = []
    for name in islice(names, _READ_CLASSES):
        with jar.open(name) as file:
            _, _, version = struct.unpack(">IHH", file.read(8))
        releases.append(version - _FIRST_CLASS_VERSION)
    return max(releases, default=None)
