"""Full names of repositories: `<owner>/<name>`, checked, or made from where the repository lies."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from agentjobs.problems import Problem

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_PLATFORM_PART = re.compile(r"[A-Za-z0-9_.-]{1,255}")
# GitLab nests groups up to twenty deep.
_MAX_PARTS = 22
_REST = re.compile(r"[^A-Za-z0-9_.-]+")


def is_address(source: str) -> bool:
    """An address with a scheme, as opposed to a path on the operator's machine."""
    return "://" in source


def checked_name(full_name: str) -> str:
    parts = full_name.split("/")
    fits = len(parts) == 2 and all(_PART.fullmatch(part) for part in parts)
    if not fits or full_name.endswith((".git", ".lock", ".")) or ".." in full_name:
        raise Problem(
            "invalid_name",
            f"{full_name!r} cannot name a repository: give a name (--name) in the form "
            "<owner>/<name>, made of letters, digits, and _ . - inside.",
        )
    return full_name


def platform_name(full_name: str) -> str:
    """As a platform has it: also `.github`, and groups in groups. Raises Problem."""
    parts = full_name.split("/")
    fits = 2 <= len(parts) <= _MAX_PARTS and all(map(_PLATFORM_PART.fullmatch, parts))
    if not fits or not {".", ".."}.isdisjoint(parts):
        raise Problem(
            "invalid_name",
            f"{full_name!r} cannot name a repository of a platform: copy its <owner>/<name> from "
            "the platform's address of it.",
        )
    return full_name


def name_from(source: str, organization: str) -> str:
    """The last two parts of an address, or the directory's name under the organization's."""
    if is_address(source):
        parts = [part for part in urlsplit(source).path.split("/") if part][-2:]
    else:
        parts = [Path(source).absolute().name]
    if len(parts) == 1:
        parts.insert(0, organization)
    parts = [_REST.sub("-", part.removesuffix(".git")).strip("-.") for part in parts]
    return checked_name("/".join(parts))
