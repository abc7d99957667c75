"""Builds an identity from the provider's claims, which are untrusted."""

from collections.abc import Mapping
from typing import Any

from agentjobs.organizations.identities import Identity
from agentjobs.web.openid.errors import invalid_response

_MAX_SUBJECT_CHARACTERS = 255
_MAX_EMAIL_CHARACTERS = 254
_MAX_NAME_CHARACTERS = 200


def build_identity(issuer: str, claims: Mapping[str, Any], userinfo: Mapping[str, Any]) -> Identity:
    """`claims` come from a verified ID token; `userinfo` is empty if it was not needed."""
    if userinfo and userinfo.get("sub") != claims["sub"]:
        raise invalid_response("the userinfo endpoint returned another subject")
    # The email address and its verification must come from the same source.
    source = claims if claims.get("email") else userinfo
    email = _email(source.get("email"))
    return Identity(
        issuer=issuer,
        subject=_subject(claims["sub"]),
        email=email,
        # Some providers send a string.
        email_verified=bool(email) and source.get("email_verified") in (True, "true"),
        name=_name(claims) or _name(userinfo),
    )


def _subject(subject: str) -> str:
    if len(subject) > _MAX_SUBJECT_CHARACTERS or not subject.isprintable():
        raise invalid_response("the subject of the ID token is too long or not printable")
    return subject


def _email(email: object) -> str:
    """Empty if there is none; known subjects do not need one."""
    if not isinstance(email, str) or len(email) > _MAX_EMAIL_CHARACTERS:
        return ""
    return email if email.isprintable() and "@" in email else ""


def _name(claims: Mapping[str, Any]) -> str:
    for claim in ("name", "preferred_username"):
        name = claims.get(claim)
        if isinstance(name, str) and name.strip():
            printable = "".join(character for character in name if character.isprintable())
            return printable.strip()[:_MAX_NAME_CHARACTERS]
    return ""
