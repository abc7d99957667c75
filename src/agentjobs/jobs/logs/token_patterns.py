"""What keys of well-known makers look like. Knows their form only: no value, no stream.

A shape says how a token begins, in at most a few dozen bytes, and what to drop after that. So a
reader never has to wait for the end of a token, which an agent could put off for ever.
"""

import re
from typing import NamedTuple

_WORD = rb"[A-Za-z0-9]"
_SLUG = rb"[A-Za-z0-9_-]"
_BASE64 = rb"[A-Za-z0-9+/=_-]"
_CREDENTIAL = rb"[A-Za-z0-9._~+/=:-]"
# Base64 lines, old headers, `\n` as JSON writes it, and what quotes or numbers lines in listings.
_PEM_BODY = rb"[A-Za-z0-9+/=:,\\\s>|#*-]"


class Shape(NamedTuple):
    """`beginning` matches a bounded number of bytes; `kept` is the part of it that is shown.

    One of `marks` stands `lead` bytes behind its start: they are quick to look for.
    `unfinished` matches every part of a beginning that more bytes could complete.
    """

    marks: tuple[bytes, ...]
    beginning: bytes
    unfinished: bytes
    most_bytes: int
    run: re.Pattern[bytes]
    end: re.Pattern[bytes] | None = None
    lead: int = 0


def _token(prefix: bytes, letter: bytes, least: int, *, before: bytes = b"") -> Shape:
    unfinished = letter + b"{0,%d}" % (least - 1)
    for code in reversed(prefix[1:]):
        unfinished = re.escape(bytes([code])) + b"(?:" + unfinished + b")?"
    first = before + re.escape(prefix[:1])
    return Shape(
        marks=(prefix,),
        beginning=first + re.escape(prefix[1:]) + letter + b"{%d}" % least,
        unfinished=first + b"(?:" + unfinished + b")?",
        most_bytes=len(prefix) + least,
        run=re.compile(letter + b"*"),
    )


def _authorization() -> Shape:
    """The header as programs print it, in a trace or in quotes; its name and scheme are shown."""
    word = rb"(?:[Aa]uthorization|AUTHORIZATION)[\"']?[ \t]{0,2}"
    separator = rb"[:=][ \t]{0,2}[\"']?"
    scheme = rb"(?:[Bb]earer|BEARER|[Bb]asic|BASIC|[Tt]oken)[ \t]{1,2}"
    later = separator + rb"[A-Za-z]{0,6}[ \t]{0,2}" + _CREDENTIAL + rb"{0,5}"
    return Shape(
        marks=(b"uthorization", b"UTHORIZATION"),
        lead=1,
        beginning=rb"(?P<kept>" + word + separator + scheme + rb")" + _CREDENTIAL + rb"{6}",
        unfinished=word
        + rb"(?:"
        + later
        + rb")?|[Aa]"
        + _any_start(b"uthorizatio", b"UTHORIZATIO"),
        most_bytes=40,
        run=re.compile(_CREDENTIAL + b"*"),
    )


def _any_start(*words: bytes) -> bytes:
    starts = {word[:length] for word in words for length in range(len(word) + 1)}
    return rb"(?:" + b"|".join(sorted(starts, reverse=True)) + rb")"


def _private_key() -> Shape:
    return Shape(
        marks=(b"-----BEGIN ",),
        beginning=rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----",
        unfinished=rb"-{1,5}|-----BEGIN [A-Z0-9 ]{0,47}-{0,4}|-----" + _any_start(b"BEGIN"),
        most_bytes=64,
        run=re.compile(_PEM_BODY + b"*"),
        end=re.compile(rb"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"),
    )


SHAPES = (
    *(_token(prefix, _WORD, 20) for prefix in (b"ajk_", b"ajt_")),
    *(_token(prefix, _WORD, 20) for prefix in (b"ghp_", b"gho_", b"ghs_", b"ghu_", b"npm_")),
    _token(b"github_pat_", rb"[A-Za-z0-9_]", 20),
    _token(b"glpat-", _SLUG, 16),
    *(_token(prefix, _SLUG, 10) for prefix in (b"xoxa-", b"xoxb-", b"xoxp-")),
    _token(b"AKIA", rb"[A-Z0-9]", 16),
    _token(b"AIza", _SLUG, 30),
    _token(b"whsec_", _BASE64, 16),
    # Not inside words such as "task-"; but an `m` may be the end of a colour sequence.
    _token(b"sk-", _SLUG, 20, before=rb"(?<![A-Za-ln-z0-9])"),
    _authorization(),
    _private_key(),
)
