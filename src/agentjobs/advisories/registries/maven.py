"""A Maven repository's `maven-metadata.xml`. A document with a DTD is refused: no entities."""

from xml.parsers import expat

from agentjobs.advisories.registries.api import Body, InvalidPackageName, RegistryApi, segments
from agentjobs.advisories.registries.versions import InvalidResponse, Published, PublishedVersion

_VERSION = ("metadata", "versioning", "versions", "version")
_DEEPEST = 16


def path_of(name: str) -> str:
    group, colon, artifact = name.partition(":")
    if not colon or ":" in artifact:
        raise InvalidPackageName(f"{name!r} is no name of a package: group:artifact is")
    parts = [*segments(group, "."), *segments(artifact)]
    return f"/{'/'.join(parts)}/maven-metadata.xml"


def read(_name: str, _content_type: str, body: Body) -> Published:
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(bytes(body), True)
    except expat.ExpatError as error:
        raise InvalidResponse(f"it is no XML ({error})") from None
    return Published(tuple(map(PublishedVersion, reader.versions)))


class _Reader:
    def __init__(self) -> None:
        self.versions: list[str] = []
        self._path: list[str] = []
        self._text = ""

    def refuse(self, *_: object) -> None:
        raise InvalidResponse("it has a document type, which no list of versions has")

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self._path.append(name)
        self._text = ""
        if len(self._path) > _DEEPEST:
            raise InvalidResponse(f"its elements are more than {_DEEPEST} deep")

    def text(self, piece: str) -> None:
        if tuple(self._path) == _VERSION:
            self._text += piece

    def end(self, _name: str) -> None:
        if tuple(self._path) == _VERSION:
            self.versions.append(self._text.strip())
        self._path.pop()


MAVEN = RegistryApi(path_of=path_of, read=read, accept="application/xml, text/xml")
