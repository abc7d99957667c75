"""Agents with hostile output: logs, reports, last lines."""

import re

import pytest

from tests.support.hostile_service import MODEL_KEY, HostileService

TOKEN = "ghp_" + "0123456789abcdefghij" * 2


def service_lines(log: str) -> list[str]:
    return [line for line in re.split(r"[\r\n]", log) if line.startswith("[agentjobs]")]


def test_lines_that_imitate_the_service_are_distinguishable(hostile: HostileService) -> None:
    finished = hostile.python(
        r"""
        def say(*pieces):
            for piece in pieces:
                os.write(1, piece)
                time.sleep(0.03)

        say(b"[agentjobs] forged at once\n")
        say(b"[agent", b"jobs] forged in ", b"pieces\n")
        say(b"before\r[agentjobs] forged after a carriage return\n")
        say(b"\x1b[32m[agentjobs]\x1b[0m forged in colour\n")
        say("\u200b[agent\u200bjobs] forged with letters nobody sees\n".encode())
        say(b"\0[agentjobs] forged behind a NUL\n")
        say(b"[agentjobs] opened pull request #999: http://evil.example/")
        change()
        """
    )
    assert finished.outcome == "completed"
    assert "forged at once" in finished.log
    assert [
        line for line in service_lines(finished.log) if "forged" in line or "evil" in line
    ] == []
    assert len(service_lines(finished.log)) >= 4


def test_a_log_contains_no_terminal_control_codes(hostile: HostileService) -> None:
    finished = hostile.python(
        r"""
        os.write(1, b"\x1b]0;title\x07\x1b[2J\x1b[1;1H\x1b[6n\x1bP1;2q\x1b\\\x9b2J\x08\x7f")
        os.write(1, "\u202eright to left\u2066 \x1b[31mred\x1b[0m\n".encode())
        os.write(1, b"\xff\xfe not text \xc3")
        time.sleep(0.05)
        os.write(1, b"\xa9 in two pieces\n")
        os._exit(3)
        """
    )
    assert finished.outcome == "agent_failed"
    without_colour = re.sub(r"\x1b\[[0-9;]*m", "", finished.log)
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066]", without_colour) == []
    assert "\x1b[31mred\x1b[0m" in finished.log
    assert "\N{LATIN SMALL LETTER E WITH ACUTE} in two pieces" in finished.log
    assert all(letter.isprintable() or letter == "\n" for letter in finished.message)


def test_keys_are_neither_logged_nor_visible_to_agents(hostile: HostileService) -> None:
    finished = hostile.python(
        f"""
        def say(text, at):
            for piece in (text[:at], text[at:]):
                os.write(1, piece.encode())
                time.sleep(0.03)
            os.write(1, b"\\n")

        key = os.environ["OPENAI_API_KEY"]
        print("backwards", key[::-1], flush=True)
        for at in (1, 5, len(key) - 1):
            say(key, at)
            say("{TOKEN}", at)
        print(f"Authorization: Bearer {{key}}", flush=True)
        real = given["real_key_backwards"][::-1]
        places = ("/run", "/etc", "/home", "/tmp", "/workspace", "/proc/self/environ")
        found = subprocess.run(["grep", "-rlsF", real, *places], capture_output=True).stdout
        print("the real key is in", found.split(), flush=True)
        sys.exit(key)
        """,
        agent="with-model",
        real_key_backwards=MODEL_KEY[::-1],
    )
    assert finished.outcome == "agent_failed"
    key = re.search(r"backwards (\S+)", finished.log)
    assert key is not None
    for secret in (key[1][::-1], TOKEN, MODEL_KEY):
        assert secret not in finished.log
        assert secret not in finished.message
    assert "the real key is in []" in finished.log
    assert finished.log.count("[redacted]") >= 8


@pytest.mark.parametrize(
    "plant",
    [
        "mkfifo $AGENTJOBS_REPORT",
        "ln -s STORE $AGENTJOBS_REPORT",
        "ln -s $AGENTJOBS_JOB $AGENTJOBS_REPORT",
        "mkdir $AGENTJOBS_REPORT",
        "head -c 300000 /dev/zero | tr '\\0' x > $AGENTJOBS_REPORT",
        "truncate -s 9G $AGENTJOBS_REPORT",
        "echo Unread > $AGENTJOBS_REPORT; chmod 000 ${AGENTJOBS_REPORT%/*}",
        "rm -rf ${AGENTJOBS_REPORT%/*}; ln -s /etc ${AGENTJOBS_REPORT%/*}",
        "ln $AGENTJOBS_JOB $AGENTJOBS_REPORT; ln /workspace/app.py $AGENTJOBS_REPORT",
        "true > $AGENTJOBS_REPORT",
    ],
    ids=[
        *("pipe", "link", "link to a neighbour", "directory", "huge", "sparse"),
        *("closed", "no directory", "second name", "empty"),
    ],
)
def test_an_invalid_report_does_not_fail_the_job(hostile: HostileService, plant: str) -> None:
    store = str(hostile.service.data_dir / "agentjobs.db")
    finished = hostile.shell(plant.replace("STORE", store) + "; echo changed > edited.txt")
    assert finished.outcome == "completed"
    page = hostile.page(finished)
    assert "Hostile: proposed changes" in page or "Unread" in page
    assert "SQLite format" not in page


def test_artifacts_cannot_reach_other_files_or_fill_the_store(hostile: HostileService) -> None:
    store = hostile.service.data_dir / "agentjobs.db"
    finished = hostile.shell(
        "cd $AGENTJOBS_ARTIFACTS; rmdir $AGENTJOBS_ARTIFACTS; ln -s /etc $AGENTJOBS_ARTIFACTS;"
        f"ln -s {store} a-store; ln -s $AGENTJOBS_JOB a-job; ln $AGENTJOBS_JOB a-second-name;"
        "mkfifo a-pipe; mkdir a-directory; truncate -s 9G a-sparse-file; touch -- '..x' \"a\nb\";"
        "for i in $(seq 30); do head -c 9000000 /dev/zero > b$i; [ $i = 4 ] && break; done;"
        "i=0; while [ $((i += 1)) -lt 10000 ]; do : > c$i; done; exit 3"
    )
    assert finished.outcome == "agent_failed"
    listed = hostile.api.http.get(f"/jobs/{finished.job['job_id']}/artifacts").json()["artifacts"]
    assert len(listed) == 50
    assert {each["name"][0] for each in listed} == {"b", "c"}
    assert sum(each["size_bytes"] for each in listed) <= 32 * 1024**2
    (warning,) = finished.job["warnings"]
    assert "a-directory (not a regular file" in warning
    assert "more." in warning


def test_a_report_is_only_text(hostile: HostileService) -> None:
    finished = hostile.python(
        rf"""
        Path(os.environ["AGENTJOBS_REPORT"]).write_bytes(
            b"\x1b[2J# <script>alert(1)</script> \xff\r\n\n"
            b"<img src=x onerror=alert(1)> {TOKEN} \x1b]0;x\x07 \0\n---\nJob: job_forged\n"
        )
        change()
        """
    )
    assert finished.outcome == "completed"
    page = hostile.page(finished)
    assert "&lt;script&gt;" in page
    assert not re.search(r"<script>alert|<img src=x|\x1b|\x07|\0", page)
    assert TOKEN not in page


def test_log_lines_cannot_forge_stream_events(hostile: HostileService) -> None:
    finished = hostile.python(
        r"""
        os.write(1, b"data: x\n\nevent: end\nid: 99999\ndata: {}\n\n: comment\n\rretry: 1\n\n")
        os._exit(1)
        """
    )
    headers = {"Accept": "text/event-stream"}
    path = f"/jobs/{finished.job['job_id']}/logs"
    with hostile.api.http.stream("GET", path, headers=headers) as response:
        lines = "".join(response.iter_text()).splitlines()
    assert "data: id: 99999" in lines
    assert not {"id: 99999", "retry: 1", "data: {}", ": comment"} & set(lines)
    assert lines.count("event: end") == 1
