"""The commands of a push are parsed strictly, for any chunk size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.web.git.push_commands import (
    MAX_OPENING_BYTES,
    MalformedOpening,
    OpeningParser,
    OpeningTooLarge,
    PushOpening,
    RefUpdate,
    pkt_line,
    rejection_report,
)

OLD = b"0" * 40
NEW = b"a" * 40
CAPABILITIES = b"\x00 report-status side-band-64k agent=git/2.39"


def update(ref: bytes = b"refs/heads/main", new: bytes = NEW, rest: bytes = b"") -> bytes:
    return pkt_line(OLD + b" " + new + b" " + ref + rest)


def parse(body: bytes) -> PushOpening:
    opening = OpeningParser().feed(body)
    assert opening is not None
    return opening


def test_a_push_names_the_refs_it_changes_and_what_its_client_understands() -> None:
    body = update(rest=CAPABILITIES) + update(b"refs/tags/v1", new=OLD) + b"0000PACK"
    opening = parse(body)
    assert opening.updates == (
        RefUpdate("refs/heads/main", deletes=False),
        RefUpdate("refs/tags/v1", deletes=True),
    )
    assert opening.capabilities == {"report-status", "side-band-64k", "agent=git/2.39"}
    assert opening.received == body


def test_a_flush_packet_alone_is_an_empty_push() -> None:
    assert parse(b"0000").updates == ()


def test_shallow_lines_may_precede_commands() -> None:
    body = pkt_line(b"shallow " + NEW) + update() + b"0000"
    assert [command.name for command in parse(body).updates] == ["refs/heads/main"]


def test_sha256_object_ids_are_parsed() -> None:
    body = pkt_line(b"0" * 64 + b" " + b"b" * 64 + b" refs/heads/main") + b"0000"
    assert parse(body).updates == (RefUpdate("refs/heads/main", deletes=False),)


@given(st.lists(st.integers(1, 50), max_size=30))
def test_chunks_of_any_size_parse_to_the_same_commands(sizes: list[int]) -> None:
    body = update(rest=CAPABILITIES) + update(b"refs/heads/other") + b"0000"
    parser = OpeningParser()
    opening = None
    at = 0
    for size in [*sizes, len(body)]:
        piece, at = body[at : at + size], at + size
        if opening is None and piece:
            opening = parser.feed(piece)
    assert opening is not None
    assert opening.updates == parse(body).updates


@given(st.integers(0, 200))
def test_truncated_commands_are_never_accepted_as_complete(length: int) -> None:
    body = update(rest=CAPABILITIES) + update(b"refs/heads/other") + b"0000"
    assert OpeningParser().feed(body[: min(length, len(body) - 1)]) is None


@given(st.binary(max_size=300))
def test_random_bytes_are_rejected_or_incomplete(noise: bytes) -> None:
    try:
        opening = OpeningParser().feed(noise)
    except MalformedOpening:
        return
    assert opening is None or opening.updates == ()


@pytest.mark.parametrize(
    "body",
    [
        b"0001",
        b"0002",
        b"0003",
        b"0004",
        b"zzzz",
        b"+00f",
        b"0x1f",
        b" 10 ",
        pkt_line(b"push-cert\x00caps"),
        pkt_line(b"old new refs/heads/main"),
        pkt_line(OLD + b" " + NEW),
        pkt_line(OLD + b"  " + NEW + b" refs/heads/main"),
        pkt_line(OLD[:39] + b" " + NEW + b" refs/heads/main"),
        pkt_line(OLD + b" " + b"A" * 40 + b" refs/heads/main"),
        update(b"refs/heads/a refs/heads/b"),
        update(b"refs/heads/a\nrefs/heads/b"),
        update(b"refs/heads/a\n\x00report-status"),
        update(b"refs/heads/a\x00caps\x00more"),
        update(b"refs/heads/\xff"),
        update(b"refs/heads/a\x7f"),
        update() + pkt_line(b"shallow " + NEW),
    ],
)
def test_commands_that_git_could_parse_differently_are_rejected(body: bytes) -> None:
    with pytest.raises(MalformedOpening):
        OpeningParser().feed(body + b"0000")


def test_a_huge_list_of_refs_is_rejected_before_it_is_buffered() -> None:
    parser = OpeningParser()
    line = update(b"refs/heads/" + b"x" * 60_000)
    for _ in range(MAX_OPENING_BYTES // len(line)):
        assert parser.feed(line) is None
    with pytest.raises(OpeningTooLarge):
        parser.feed(line)


def test_a_rejection_uses_the_report_format_of_git() -> None:
    opening = parse(update(rest=CAPABILITIES) + update(b"refs/heads/mine") + b"0000")
    report = rejection_report(opening, {"refs/heads/main": "not yours"})
    assert report is not None
    assert b"\x01" in report
    assert b"ng refs/heads/main not yours\n" in report
    assert b"ng refs/heads/mine rejected together with the other updates\n" in report
    assert report.endswith(b"00000000")


def test_a_client_without_a_sideband_gets_the_plain_report() -> None:
    opening = parse(update(rest=b"\x00report-status") + b"0000")
    expected = pkt_line(b"unpack ok\n") + pkt_line(b"ng refs/heads/main no\n") + b"0000"
    assert rejection_report(opening, {"refs/heads/main": "no"}) == expected


def test_a_client_that_reads_no_report_gets_none() -> None:
    assert rejection_report(parse(update() + b"0000"), {"refs/heads/main": "no"}) is None


def test_a_long_report_is_cut_into_lines_a_client_accepts() -> None:
    lines = [update(b"refs/heads/%05d" % number) for number in range(5_000)]
    opening = parse(update(rest=CAPABILITIES) + b"".join(lines) + b"0000")
    report = rejection_report(opening, {})
    assert report is not None
    at, unwrapped = 0, b""
    while length := int(report[at : at + 4], 16):
        assert length <= 65_520
        assert report[at + 4 : at + 5] == b"\x01"
        unwrapped += report[at + 5 : at + length]
        at += length
    assert unwrapped.count(b"ng refs/heads/") == 5_001
