"""Descriptions, links and weaknesses of advisories, and CVSS vectors in words."""

from typing import Any

import pytest

from agentjobs_dependencies.advisories.model import parse_advisory
from agentjobs_dependencies.advisories.severity import describe_vector
from agentjobs_dependencies.advisories.texts import (
    MAX_DETAILS_BYTES,
    AdvisoryText,
    Reference,
    merge_texts,
    parse_text,
)
from tests.support.osv_records import record

FIX = {"type": "FIX", "url": "https://example.test/fix"}


def test_a_record_has_its_description_links_and_weaknesses() -> None:
    advisory = parse_advisory(
        {
            **record("GHSA-1111", "requests", "2.31.0"),
            "details": "# Impact\n\nIt leaks.",
            "references": [FIX, {"type": "NEW", "url": "http://example.test"}],
            "database_specific": {"cwe_ids": ["CWE-200"], "severity": "HIGH"},
        }
    )
    assert advisory is not None
    assert advisory.text == AdvisoryText(
        "# Impact\n\nIt leaks.",
        (Reference("FIX", FIX["url"]), Reference("WEB", "http://example.test")),
        ("CWE-200",),
    )


@pytest.mark.parametrize(
    ("references", "weaknesses"),
    [
        (None, None),
        ("https://example.test", "CWE-1"),
        ([None, 1, "x", {}, {"url": 5, "type": "WEB"}, {"url": "https://a.test"}], [1, None, {}]),
        ([{"type": "WEB", "url": "javascript:alert(1)"}], ["CWE-0", "cwe-1", "CWE-1<"]),
        ([{"type": [], "url": "https://a.test"}], {}),
        ([{"type": "WEB", "url": "https://a.test/" + "x" * 500}], []),
    ],
)
def test_invalid_links_and_weaknesses_are_left_out(references: Any, weaknesses: Any) -> None:
    assert parse_text("", references, weaknesses) is None


def test_texts_are_bounded() -> None:
    many = [{"type": "WEB", "url": f"https://example.test/{number}"} for number in range(50)]
    text = parse_text("ä" * 20_000, many * 2, [f"CWE-{number}" for number in range(1, 50)])
    assert text is not None
    assert len(text.details.encode()) <= MAX_DETAILS_BYTES
    assert text.details.endswith("ä…")
    assert (len(text.references), len(text.weaknesses)) == (20, 20)


def test_records_of_one_vulnerability_are_merged() -> None:
    fix, web = Reference("FIX", "https://a.test/fix"), Reference("WEB", "https://a.test")
    merged = merge_texts(
        [AdvisoryText(references=(web,)), AdvisoryText("It leaks.", (web, fix), ("CWE-1",))]
    )
    assert merged == AdvisoryText("It leaks.", (fix, web), ("CWE-1",))
    assert merge_texts([]) == AdvisoryText()


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        (
            "CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:C/C:H/I:L/A:N",
            (
                "Attack vector network, Attack complexity low, Privileges required none,"
                " User interaction required, Scope changed, Confidentiality high, Integrity low,"
                " Availability none"
            ),
        ),
        (
            "CVSS:4.0/AV:L/AC:H/AT:P/PR:L/UI:A/VC:N/VI:H/VA:L/SC:N/SI:N/SA:H/E:P",
            (
                "Attack vector local, Attack complexity high, Attack requirement present,"
                " Privileges required low, User interaction active,"
                " Vulnerable system impact confidentiality none,"
                " Vulnerable system impact integrity high,"
                " Vulnerable system impact availability low,"
                " Subsequent system impact confidentiality none,"
                " Subsequent system impact integrity none,"
                " Subsequent system impact availability high"
            ),
        ),
        (
            "AV:N/AC:M/Au:N/C:P/I:N/A:C",
            (
                "Access vector network, Access complexity medium, Authentication none,"
                " Confidentiality impact partial, Integrity impact none,"
                " Availability impact complete"
            ),
        ),
        ("CVSS:3.1/AV:X/nonsense//:", ""),
        ("", ""),
    ],
)
def test_a_vector_is_described_in_words(vector: str, expected: str) -> None:
    assert ", ".join(" ".join(each) for each in describe_vector(vector)) == expected
