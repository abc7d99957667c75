"""Who signed in, in our own words; what a provider tells of people is hostile until then."""

from collections.abc import Mapping
from typing import Any

from agentjobs.organizations.identities import Identity
from agentjobs.web.openid.errors import unusable_answer

_MOST_SUBJECT_CHARACTERS = 255
_MOST_EMAIL_CHARACTERS = 254
_MOST_NAME_CHARACTERS = 200


def identity_of(issuer: str, claims: Mapping[str, Any], userinfo: Mapping[str, Any]) -> Identity:
    """`claims` are of a valid ID token; `userinfo` is empty if nobody had to ask for it."""
    if userinfo and userinfo.get("sub") != claims["sub"]:
        raise unusable_answer("the userinfo endpoint tells of another person")
    # The address and whether it is verified come from one source.
    source = claims if claims.get("email") else userinfo
    email = _email(source.get("email"))
    return Identity(
        issuer=issuer,
        subject=_subject(claims["sub"]),
        email=email,
        # Some providers write it as text.
        email_verified=bool(email) and source.get("email_verified") in (True, "true"),
        name=_name(claims) or _name(userinfo),
    )


def _subject(subject: str) -> str:
    if len(subject) > _MOST_SUBJECT_CHARACTERS or not subject.isprintable():
        raise unusable_answer("the subject of the ID token is too long or not printable")
    return subject


def _email(email: object) -> str:
    """Empty if there is none: who is known by the subject needs none."""
    if not isinstance(email, str) or len(email) > _MOST_EMAIL_CHARACTERS:
        return ""
    return email if email.isprintable() and "@" in email else ""


def _name(claims: Mapping[str, Any]) -> str:
    for claim in ("name", "preferred_username"):
        name = claims.get(claim)
        if isinstance(name, str) and name.strip():
            printable = "".join(each for each in name if each.isprintable())
            return printable.strip()[:_MOST_NAME_CHARACTERS]
    return ""
