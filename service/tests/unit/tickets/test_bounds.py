"""Untrusted text of tickets is bounded and cleaned."""

from agentjobs.tickets.bounds import MAX_TEXT_BYTES, TRUNCATION_NOTICE, build_ticket, truncate_text


def test_a_long_text_is_cut_with_a_notice_and_never_inside_a_letter() -> None:
    assert truncate_text("ä" * (MAX_TEXT_BYTES // 2)) == "ä" * (MAX_TEXT_BYTES // 2)
    cut = truncate_text("ä" * MAX_TEXT_BYTES)
    assert cut.endswith("ä" + TRUNCATION_NOTICE)
    assert MAX_TEXT_BYTES - 2 < len(cut.encode()) <= MAX_TEXT_BYTES


def test_untrusted_text_is_bounded_and_cleaned() -> None:
    ticket = build_ticket(
        "A-1",
        "A\nline\u202e\x1b[31m \ud800" + "x" * 999,
        "one\r\ntwo\x00\x07\tthree\u2028four",
        ["a", "a", "\n", "l" * 300, *(str(number) for number in range(99))],
        "javascript:alert(1)",
    )
    assert ticket.title.startswith("A line[31m ?xxx")
    assert len(ticket.title) == 255
    assert ticket.text == "one\ntwo\tthree four"
    assert ticket.labels[:2] == ("a", "l" * 99 + "…")
    assert len(ticket.labels) == 50
    assert ticket.url == ""
    assert build_ticket("A-1", " \n", "", [], "").title == "A-1"
