"""Agents that exceed their limits: processes, output, disk, memory, CPU time."""

import pytest

from tests.support.hostile_agents import LOG_BYTES
from tests.support.hostile_service import HostileService


def test_the_check_after_every_attempt_detects_a_running_agent(hostile: HostileService) -> None:
    job_id = hostile.start(shell="echo up; cd docs; exec env -i sleep 600")
    hostile.wait_for_output(job_id, "up")
    leftovers = hostile.leftovers()
    # A cgroup is only created where the machine allows it.
    assert {entry.split()[0] for entry in leftovers} - {"cgroup"} == {"process", "directory"}
    hostile.api.http.post(f"/jobs/{job_id}/cancel")
    assert hostile.end(job_id).outcome == "cancelled"


def test_a_fork_bomb_is_limited_and_ends_at_the_timeout(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        children = 0
        while True:
            try:
                if os.fork() == 0:
                    continue
                children += 1
            except OSError:
                time.sleep(0.001)
        """,
        agent="crowded",
        timeout_seconds=1,
    )
    assert finished.outcome == "timeout"


def test_exceeding_the_process_limit_does_not_fail_the_job(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        made = 0
        try:
            while os.fork():
                made += 1
        except OSError as error:
            print("made", made, errno.errorcode[error.errno], flush=True)
            change()
            os._exit(0)
        while True:
            signal.pause()
        """,
        agent="crowded",
    )
    assert finished.outcome == "completed"
    forks = next(line.split() for line in finished.log.splitlines() if line.startswith("made"))
    assert 8 <= int(forks[1]) <= 40 + hostile.sandbox.extra_processes
    assert forks[2] == "EAGAIN"


def test_a_shells_fork_bomb_only_ends_itself(hostile: HostileService) -> None:
    finished = hostile.shell(
        "bomb() { bomb | bomb & }; bomb; sleep 600", agent="crowded", timeout_seconds=1
    )
    assert finished.outcome in {"timeout", "agent_failed"}


@pytest.mark.parametrize("flood", ["cat /dev/zero", "yes '[agentjobs] all is well'"])
def test_endless_output_fills_the_log_and_nothing_else(hostile: HostileService, flood: str) -> None:
    job_id = hostile.start(shell=f"echo up; exec {flood}")
    hostile.wait_for_output(job_id, "[agentjobs] the log is full")
    assert hostile.api.http.get(f"{hostile.service.root_url}/readyz").status_code == 200
    hostile.api.http.post(f"/jobs/{job_id}/cancel")
    finished = hostile.end(job_id)
    assert finished.outcome == "cancelled"
    assert len(finished.log) < LOG_BYTES + 64 * 1024
    # Nothing of the agent follows.
    rest = finished.log.partition("[agentjobs] the log is full")[2].splitlines()[1:]
    assert all(line.startswith("[agentjobs] ") for line in rest)


def test_a_full_log_does_not_fail_the_job(hostile: HostileService) -> None:
    finished = hostile.shell("yes | head -c 2000000; echo changed > edited.txt")
    assert finished.outcome == "completed"
    assert "[agentjobs] opened pull request" in finished.log.splitlines()[-1]


def test_a_sparse_file_of_ten_gigabytes_is_refused(hostile: HostileService) -> None:
    finished = hostile.shell("truncate -s 10G big")
    assert finished.outcome == "unsafe_change"
    assert "big" in finished.message


def test_a_sparse_file_above_the_limit_is_not_created(hostile: HostileService) -> None:
    finished = hostile.shell(
        "truncate -s 10G big; test -s big || echo changed > edited.txt", agent="tight"
    )
    assert finished.outcome == "completed"
    assert finished.branch.content("big") == b""


def test_a_file_cannot_be_written_beyond_its_limit(hostile: HostileService) -> None:
    finished = hostile.shell("exec head -c 10G /dev/zero > big", agent="tight")
    assert finished.outcome == "agent_failed"
    assert "exit code 153" in finished.message


def test_many_files_cannot_fill_the_disk(hostile: HostileService) -> None:
    finished = hostile.shell(
        "while :; do n=$((n+1)); head -c 4M /dev/zero > big.$n; sync .; done", agent="tight"
    )
    assert finished.outcome == "agent_failed"
    assert finished.message == "The agent used more than 32 MiB in the workspace."


def test_the_report_directory_is_part_of_the_workspace(hostile: HostileService) -> None:
    finished = hostile.shell(
        "cd /run/agentjobs/report; while :; do n=$((n+1)); head -c 4M /dev/zero > $n; sync .; done",
        agent="tight",
    )
    assert finished.message == "The agent used more than 32 MiB in the workspace."


def test_deleted_files_that_are_held_open_count_too(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        held = []
        while True:
            held.append(open("hidden", "wb"))
            os.unlink("hidden")
            held[-1].write(bytes(4 << 20))
            os.fsync(held[-1])
        """,
        agent="tight",
    )
    assert finished.message == "The agent used more than 32 MiB in the workspace."


def test_memory_is_counted_over_all_processes(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        for _ in range(3):
            os.fork()
        hoard = []
        while True:
            hoard.append(b"x" * (1 << 20))
            time.sleep(0.01)
        """,
        agent="tight",
    )
    assert finished.outcome == "agent_failed"
    assert finished.message == "The agent used more than 64 MiB of memory."


def test_a_greedy_process_does_not_take_the_machines_memory(hostile: HostileService) -> None:
    finished = hostile.python(
        "hoard = []\nwhile True: hoard.append(b'x' * (1 << 22))", agent="tight"
    )
    assert finished.message == "The agent used more than 64 MiB of memory."


def test_a_full_temporary_directory_only_affects_the_agent(hostile: HostileService) -> None:
    finished = hostile.shell(
        """
        for place in /tmp "$HOME" /dev/shm; do
            head -c 1G /dev/zero > "$place/fill" || echo "$place is full"
        done
        echo changed > edited.txt
        """,
        agent="tight",
    )
    assert finished.outcome == "completed"
    assert finished.log.count("is full") == 3


def test_endless_empty_files_count_as_memory(hostile: HostileService) -> None:
    finished = hostile.python(
        "number = 0\nwhile True:\n    number += 1; os.mknod(f'/tmp/{number}')", agent="tight"
    )
    assert finished.message == "The agent used more than 64 MiB of memory."


def test_cpu_time_is_counted_over_all_processes(hostile: HostileService) -> None:
    finished = hostile.shell(
        "for n in 1 2 3; do (while :; do :; done) & done; wait", agent="short-of-cpu"
    )
    assert finished.outcome == "agent_failed"
    assert finished.message == "The agent used more than 1 second of CPU time."


def test_cpu_time_of_ended_processes_counts(hostile: HostileService) -> None:
    finished = hostile.shell(
        "while :; do timeout 0.3 sh -c 'while :; do :; done'; done", agent="short-of-cpu"
    )
    assert finished.message == "The agent used more than 1 second of CPU time."
