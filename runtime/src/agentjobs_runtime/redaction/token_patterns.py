"""The formats of well-known keys and tokens.

A format says how a token begins, in at most a few dozen bytes, and which bytes follow. So the
redaction never waits for the end of a token, which an agent could delay forever.
"""

import re
from typing import NamedTuple

_WORD = rb"[A-Za-z0-9]"
_SLUG = rb"[A-Za-z0-9_-]"
# Tokens that contain a JWT (`ghs_<App ID>_<JWT>`) or end with a checksum (`glpat-….01.0z1a2b3c4`).
_DOTTED = rb"[A-Za-z0-9._-]"
_BASE64 = rb"[A-Za-z0-9+/=_-]"
_CREDENTIAL = rb"[A-Za-z0-9._~+/=:-]"
# Base64 lines, old headers, `\n` in JSON, and quoted or numbered lines.
_PEM_BODY = rb"[A-Za-z0-9+/=:,\\\s>|#*-]"


class TokenFormat(NamedTuple):
    """`beginning` matches a bounded number of bytes; its group `kept` is not redacted.

    One of `marks` is `lead` bytes after its start and is fast to search for. `unfinished` matches
    every prefix of a beginning.
    """

    marks: tuple[bytes, ...]
    beginning: bytes
    unfinished: bytes
    max_bytes: int
    run: re.Pattern[bytes]
    end: re.Pattern[bytes] | None = None
    lead: int = 0


def _token(prefix: bytes, letter: bytes, min_length: int, *, before: bytes = b"") -> TokenFormat:
    unfinished = letter + b"{0,%d}" % (min_length - 1)
    for code in reversed(prefix[1:]):
        unfinished = re.escape(bytes([code])) + b"(?:" + unfinished + b")?"
    first = before + re.escape(prefix[:1])
    return TokenFormat(
        marks=(prefix,),
        beginning=first + re.escape(prefix[1:]) + letter + b"{%d}" % min_length,
        unfinished=first + b"(?:" + unfinished + b")?",
        max_bytes=len(prefix) + min_length,
        run=re.compile(letter + b"*"),
    )


def _authorization() -> TokenFormat:
    """The header as programs print it, in a trace or in quotes; its name and scheme are kept."""
    word = rb"(?:[Aa]uthorization|AUTHORIZATION)[\"']?[ \t]{0,2}"
    separator = rb"[:=][ \t]{0,2}[\"']?"
    scheme = rb"(?:[Bb]earer|BEARER|[Bb]asic|BASIC|[Tt]oken)[ \t]{1,2}"
    later = separator + rb"[A-Za-z]{0,6}[ \t]{0,2}" + _CREDENTIAL + rb"{0,5}"
    return TokenFormat(
        marks=(b"uthorization", b"UTHORIZATION"),
        lead=1,
        beginning=rb"(?P<kept>" + word + separator + scheme + rb")" + _CREDENTIAL + rb"{6}",
        unfinished=word
        + rb"(?:"
        + later
        + rb")?|[Aa]"
        + _any_prefix(b"uthorizatio", b"UTHORIZATIO"),
        max_bytes=40,
        run=re.compile(_CREDENTIAL + b"*"),
    )


def _any_prefix(*words: bytes) -> bytes:
    starts = {word[:length] for word in words for length in range(len(word) + 1)}
    return rb"(?:" + b"|".join(sorted(starts, reverse=True)) + rb")"


def _private_key() -> TokenFormat:
    return TokenFormat(
        marks=(b"-----BEGIN ",),
        beginning=rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----",
        unfinished=rb"-{1,5}|-----BEGIN [A-Z0-9 ]{0,47}-{0,4}|-----" + _any_prefix(b"BEGIN"),
        max_bytes=64,
        run=re.compile(_PEM_BODY + b"*"),
        end=re.compile(rb"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"),
    )


TOKEN_FORMATS = (
    *(_token(prefix, _WORD, 20) for prefix in (b"ajk_", b"ajt_")),
    *(_token(prefix, _DOTTED, 20) for prefix in (b"ghp_", b"gho_", b"ghr_", b"ghs_", b"ghu_")),
    _token(b"npm_", _WORD, 20),
    _token(b"github_pat_", rb"[A-Za-z0-9_]", 20),
    *(_token(prefix, _DOTTED, 16) for prefix in (b"glpat-", b"gldt-", b"glcbt-", b"glrt-")),
    *(_token(prefix, _SLUG, 10) for prefix in (b"xoxa-", b"xoxb-", b"xoxp-")),
    _token(b"AKIA", rb"[A-Z0-9]", 16),
    _token(b"AIza", _SLUG, 30),
    _token(b"whsec_", _BASE64, 16),
    # Not inside words such as "task-", but after `m`, which may end a colour sequence.
    _token(b"sk-", _SLUG, 20, before=rb"(?<![A-Za-ln-z0-9])"),
    _authorization(),
    _private_key(),
)
