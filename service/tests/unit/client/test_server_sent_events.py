from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentjobs_client.server_sent_events import EventParser, ServerSentEvent


def parse(*pieces: str) -> list[ServerSentEvent]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def test_data_lines_are_joined_and_the_identifier_is_kept():
    assert parse("id: 7\ndata: one\ndata: two\ndata:\n\n") == [
        ServerSentEvent("message", "one\ntwo\n", "7")
    ]


def test_comments_and_retry_fields_are_not_events():
    assert parse(": still here\n\nretry: 1000\n\n") == []


def test_a_named_event_without_data_is_dispatched():
    assert parse("event: end\n\n") == [ServerSentEvent("end", "", "")]


def test_only_the_first_space_after_the_colon_is_not_part_of_the_value():
    assert parse("data:  two\ndata:none\n\n")[0].data == " two\nnone"


def test_separators_that_only_python_knows_do_not_cut_a_line():
    assert parse("data: a\u2028b\x0bc\x85d\n\n")[0].data == "a\u2028b\x0bc\x85d"


@given(st.lists(st.integers(0, 80), max_size=8), st.sampled_from(["\n", "\r\n", "\r"]))
def test_chunk_boundaries_do_not_matter(cuts, line_end):
    lines = ["id: 1", "data: x", "", ": hello", "event: end", "id: 2", "data: done", "", ""]
    stream = line_end.join(lines) + "data: next"
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    assert parse(*pieces) == [
        ServerSentEvent("message", "x", "1"),
        ServerSentEvent("end", "done", "2"),
    ]
