"""Author and committer of a commit, as git's environment variables."""

import msgspec


class Identity(msgspec.Struct, frozen=True):
    name: str
    email: str

    def as_role(self, role: str) -> dict[str, str]:
        """The environment variables for `AUTHOR` or `COMMITTER`."""
        return {f"GIT_{role}_NAME": self.name, f"GIT_{role}_EMAIL": self.email}

    @property
    def as_author_and_committer(self) -> dict[str, str]:
        return self.as_role("AUTHOR") | self.as_role("COMMITTER")
