"""The `maven-metadata.xml` of a Maven repository. Documents with a DTD are rejected."""

from agentjobs_dependencies.formats.maven.xml_tree import read_xml
from agentjobs_dependencies.registries.api import Body, InvalidPackageName, RegistryApi, segments
from agentjobs_dependencies.registries.versions import InvalidResponse, Published, PublishedVersion


def path_for(name: str) -> str:
    group, colon, artifact = name.partition(":")
    if not colon or ":" in artifact:
        raise InvalidPackageName(f"{name!r} is not a valid package name: use group:artifact")
    parts = [*segments(group, "."), *segments(artifact)]
    return f"/{'/'.join(parts)}/maven-metadata.xml"


def pom_path(coordinate: str) -> str:
    """The path of a pom by `group:artifact:version`."""
    group, artifact, version = (*coordinate.split(":", 2), "", "")[:3]
    name, number = segments(artifact), segments(version)
    if len(name) != 1 or len(number) != 1:
        raise InvalidPackageName(f"{coordinate!r} is not group:artifact:version")
    directory = "/".join([*segments(group, "."), *name, *number])
    return f"/{directory}/{name[0]}-{number[0]}.pom"


def read(_name: str, _content_type: str, body: Body) -> Published:
    metadata, problems = read_xml(bytes(body))
    if metadata is None or problems:
        raise InvalidResponse(f"invalid XML ({'; '.join(problems)})")
    versions = metadata.each("versioning", "versions", "version")
    return Published(tuple(PublishedVersion(version.text.strip()) for version in versions))


MAVEN = RegistryApi(path_for=path_for, read=read, accept="application/xml, text/xml")
