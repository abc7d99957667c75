"""What all responses have in common. Fields that a newer service adds are ignored."""

from datetime import datetime
from typing import Annotated, Any, Self

import msgspec

Timestamp = Annotated[datetime, msgspec.Meta(tz=True)]
_DOCUMENT = "_document"


class Model(msgspec.Struct, frozen=True, dict=True):
    @classmethod
    def from_document(cls, document: object) -> Self:
        """Raises msgspec.ValidationError if a field is missing or of the wrong type."""
        model = msgspec.convert(document, cls)
        model.__dict__[_DOCUMENT] = document
        return model

    @property
    def raw(self) -> dict[str, Any]:
        """The JSON object as the service sent it, with fields that this package does not know."""
        document = self.__dict__.get(_DOCUMENT)
        raw: dict[str, Any] = msgspec.to_builtins(self) if document is None else document
        return raw
