"""`agentjobs advisories` as an operator types it."""

import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import trustme

from tests.support.in_process_cli import InProcessCommandLine
from tests.support.osv_records import CVSS_HIGH, record, write_bucket
from tests.support.scripted_server import server_tls

PYSEC = record("PYSEC-1", "requests", "2.31.0", aliases=["CVE-1", "GHSA-1111"])
GHSA = record("GHSA-1111", "requests", "2.31.0", aliases=["CVE-1"], vector=CVSS_HIGH)


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    write_bucket(tmp_path / "osv", "PyPI", [PYSEC, GHSA])
    return InProcessCommandLine(capsys, tmp_path / "data")


@pytest.fixture
def configured(agentjobs, tmp_path):
    return agentjobs.with_settings(
        AGENTJOBS_ADVISORIES_SOURCE=str(tmp_path / "osv"), AGENTJOBS_ADVISORIES_ECOSYSTEMS="PyPI"
    )


def test_without_a_source_the_commands_say_how_to_configure_one(agentjobs):
    status = agentjobs("advisories", "status", "--json")
    assert status.document == {"source": None, "feeds": []}
    assert "AGENTJOBS_ADVISORIES_SOURCE" in status.err
    sync = agentjobs("advisories", "sync")
    assert (sync.exit_code, sync.out) == (2, "")
    assert "AGENTJOBS_ADVISORIES_SOURCE" in sync.err
    search = agentjobs("advisories", "search", "requests", "--json")
    assert search.document == {"advisories": []}
    assert "AGENTJOBS_ADVISORIES_SOURCE" in search.err


@pytest.fixture
def https_source(tmp_path):
    """The URL of the bucket, and a file with the authority of its server."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path / "osv")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.socket = server_tls(authority).wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}", tmp_path / "ca.pem"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_source_with_a_certificate_of_a_private_authority_is_read(configured, https_source):
    url, ca_file = https_source
    remote = configured.with_settings(
        AGENTJOBS_ADVISORIES_SOURCE=url, AGENTJOBS_EGRESS_ALLOW="127.0.0.0/8"
    )
    refused = remote("advisories", "sync", "--json")
    assert "AGENTJOBS_CA_FILE" in refused.out + refused.err
    trusting = remote.with_settings(AGENTJOBS_CA_FILE=str(ca_file))
    (feed,) = trusting("advisories", "sync", "--json").document["feeds"]
    assert (feed["result"], feed["changed"]) == ("full", 2)


def test_advisories_are_synchronized_shown_and_searched(configured, tmp_path):
    (feed,) = configured("advisories", "sync", "--json").document["feeds"]
    assert (feed["ecosystem"], feed["result"], feed["changed"]) == ("PyPI", "full", 2)
    repeated = configured("advisories", "sync")
    assert (repeated.exit_code, repeated.out.splitlines()[1]) == (0, "PyPI\tdelta\t0\t0\t2")

    status = configured("advisories", "status", "--json").document
    assert status["source"] == str(tmp_path / "osv")
    (feed,) = status["feeds"]
    assert (feed["state"], feed["records"], feed["error"]) == ("current", 2, None)
    assert feed["next_at"] > feed["synced_at"]
    assert "PyPI\t2\tcurrent" in configured("advisories", "status").out

    (advisory,) = configured("advisories", "search", "PYSEC-1", "--json").document["advisories"]
    assert advisory["severity"] == "high"
    assert advisory["severity_source"].endswith("of GHSA-1111")
    assert advisory["packages"] == [
        {
            "ecosystem": "PyPI",
            "name": "requests",
            "affected": "< 2.31.0",
            "fixed": ["2.31.0"],
        }
    ]
    limited = configured("advisories", "search", "requests", "--ecosystem", "pypi", "--limit", "1")
    assert len(limited.out.splitlines()) == 2
    assert "--limit 2" in limited.err
    wrong = configured("advisories", "search", "requests", "--ecosystem", "CPAN")
    assert (wrong.exit_code, "not one of: PyPI" in wrong.err) == (2, True)


def test_a_feed_that_fails_is_told_with_exit_code_1(configured, tmp_path):
    configured("advisories", "sync")
    (tmp_path / "osv" / "PyPI" / "modified_id.csv").unlink()
    (tmp_path / "osv" / "PyPI" / "all.zip").write_bytes(b"\x1b[31mbroken")
    failed = configured("advisories", "sync", "--json")
    assert failed.exit_code == 1
    assert "not a valid zip" in failed.err
    (feed,) = configured("advisories", "status", "--json").document["feeds"]
    assert (feed["state"], feed["records"], feed["failures"]) == ("failed", 2, 1)
    assert "not a valid zip" in feed["error"]


def test_a_source_without_any_known_record_is_a_failure(configured, tmp_path):
    shutil.rmtree(tmp_path / "osv" / "PyPI")
    empty = configured("advisories", "sync")
    assert empty.exit_code == 1
    assert "has no records" in empty.err
