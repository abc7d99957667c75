"""Full names of repositories, `<owner>/<name>`: validated, or derived from a source."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from agentjobs_runtime.problems import Problem

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_PLATFORM_PART = re.compile(r"[A-Za-z0-9_.-]{1,255}")
# GitLab nests groups up to twenty deep.
_MAX_PARTS = 22
_INVALID_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]+")


def is_url(source: str) -> bool:
    """True for a URL with a scheme, False for a path on the operator's machine."""
    return "://" in source


def validate_name(full_name: str) -> str:
    parts = full_name.split("/")
    is_valid = len(parts) == 2 and all(_PART.fullmatch(part) for part in parts)
    if not is_valid or full_name.endswith((".git", ".lock", ".")) or ".." in full_name:
        raise Problem(
            "invalid_name",
            f"{full_name!r} is not a valid repository name: choose one (--name) in the form "
            "<owner>/<name>, using letters, digits, and _ . - inside.",
        )
    return full_name


def validate_platform_name(full_name: str) -> str:
    """Accepts platform names such as `.github` and nested groups. Raises Problem."""
    parts = full_name.split("/")
    is_valid = 2 <= len(parts) <= _MAX_PARTS and all(map(_PLATFORM_PART.fullmatch, parts))
    if not is_valid or not {".", ".."}.isdisjoint(parts):
        raise Problem(
            "invalid_name",
            f"{full_name!r} is not a valid repository name: copy <owner>/<name> from the "
            "repository's URL on the platform.",
        )
    return full_name


def name_taken(full_name: str) -> Problem:
    return Problem(
        "name_taken",
        f"A repository named {full_name!r} is already connected; choose another name, or "
        "disconnect that one first.",
    )


def derive_name(source: str, organization: str) -> str:
    """The last two path parts of a URL, or `<organization>/<directory name>` for a path."""
    if is_url(source):
        parts = [part for part in urlsplit(source).path.split("/") if part][-2:]
    else:
        parts = [Path(source).absolute().name]
    if len(parts) == 1:
        parts.insert(0, organization)
    parts = [_INVALID_CHARACTERS.sub("-", part.removesuffix(".git")).strip("-.") for part in parts]
    return validate_name("/".join(parts))
