"""Author, committer and co-author of a commit."""

import re
from typing import Self

import msgspec

_MAX_CHARACTERS = 200
# Git's own delimiters, and characters that would end the line.
_DELIMITERS = re.compile(r"[<>\x00-\x1f\x7f\x85\u2028\u2029]+")
_ADDRESS = re.compile(r"[^\s@]+@[^\s@]+")


class Identity(msgspec.Struct, frozen=True):
    name: str
    email: str

    @classmethod
    def clean(cls, name: str, email: str) -> Self | None:
        """From untrusted text; None if it has no name or no address."""
        name = " ".join(_DELIMITERS.sub(" ", name).split())[:_MAX_CHARACTERS].strip()
        email = email.strip()
        is_valid = len(email) <= _MAX_CHARACTERS and _ADDRESS.fullmatch(email) is not None
        if not name or not is_valid or _DELIMITERS.search(email):
            return None
        return cls(name, email)

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"

    def as_role(self, role: str) -> dict[str, str]:
        """The environment variables for `AUTHOR` or `COMMITTER`."""
        return {f"GIT_{role}_NAME": self.name, f"GIT_{role}_EMAIL": self.email}

    @property
    def as_author_and_committer(self) -> dict[str, str]:
        return self.as_role("AUTHOR") | self.as_role("COMMITTER")
