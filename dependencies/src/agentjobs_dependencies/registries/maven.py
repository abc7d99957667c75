"""The `maven-metadata.xml` of a Maven repository. Documents with a DTD are rejected."""

from xml.parsers import expat

from agentjobs_dependencies.registries.api import Body, InvalidPackageName, RegistryApi, segments
from agentjobs_dependencies.registries.versions import InvalidResponse, Published, PublishedVersion

_VERSION = ("metadata", "versioning", "versions", "version")
_MAX_DEPTH = 16


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
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.reject_doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(bytes(body), True)
    except expat.ExpatError as error:
        raise InvalidResponse(f"invalid XML ({error})") from None
    return Published(tuple(map(PublishedVersion, reader.versions)))


class _Reader:
    def __init__(self) -> None:
        self.versions: list[str] = []
        self._path: list[str] = []
        self._text = ""

    def reject_doctype(self, *_: object) -> None:
        raise InvalidResponse("XML with a DOCTYPE is not supported")

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self._path.append(name)
        self._text = ""
        if len(self._path) > _MAX_DEPTH:
            raise InvalidResponse(f"XML nested more than {_MAX_DEPTH} levels deep")

    def text(self, chunk: str) -> None:
        if tuple(self._path) == _VERSION:
            self._text += chunk

    def end(self, _name: str) -> None:
        if tuple(self._path) == _VERSION:
            self.versions.append(self._text.strip())
        self._path.pop()


MAVEN = RegistryApi(path_for=path_for, read=read, accept="application/xml, text/xml")
