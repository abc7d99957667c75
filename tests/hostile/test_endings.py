"""Agents that resist being ended, or try to end others."""

from tests.support.hostile_service import HostileService

STUBBORN = "trap '' TERM INT HUP QUIT USR1; echo up; while :; do sleep 600; done"


def test_an_agent_that_ignores_every_signal_ends_at_the_timeout(hostile: HostileService) -> None:
    script = f"({STUBBORN}) & sleep 600 & kill -STOP $!; trap '' TERM HUP; kill -STOP $$"
    finished = hostile.shell(script, timeout_seconds=1)
    assert finished.outcome == "timeout"
    assert finished.message == "The agent did not finish within 1 seconds."


def test_an_agent_that_ignores_every_signal_can_be_cancelled(hostile: HostileService) -> None:
    job_id = hostile.start(shell=f'(setsid sh -c "{STUBBORN}" &) ; {STUBBORN}')
    hostile.wait_for_output(job_id, "up\nup")
    assert hostile.api.http.post(f"/jobs/{job_id}/cancel").status_code == 202
    finished = hostile.end(job_id)
    assert (finished.job["status"], finished.outcome) == ("cancelled", "cancelled")
    assert hostile.api.http.post(f"/jobs/{job_id}/cancel").status_code == 409


def test_a_fork_bomb_can_be_cancelled(hostile: HostileService) -> None:
    script = "print('up', flush=True)\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    job_id = hostile.start("crowded", python=script)
    hostile.wait_for_output(job_id, "up")
    hostile.api.http.post(f"/jobs/{job_id}/cancel")
    assert hostile.end(job_id).outcome == "cancelled"


def test_a_daemon_does_not_fail_the_job_and_does_not_outlive_it(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            for number in range(1, 32):
                if number not in (signal.SIGKILL, signal.SIGSTOP):
                    signal.signal(number, signal.SIG_IGN)
            os.chdir("/")
            os.closerange(0, 3)
            Path("/workspace/daemon.txt").write_text("up")
            while True:
                Path("/workspace/again.log").write_text("still here")
        while not Path("daemon.txt").exists():
            time.sleep(0.01)
        """
    )
    assert finished.outcome == "completed"
    assert b"daemon.txt" in finished.branch.files()


def test_daemons_that_keep_the_output_open_do_not_delay_the_job(hostile: HostileService) -> None:
    finished = hostile.shell(
        """
        nohup setsid sh -c 'while :; do echo still here; sleep 0.01; done' &
        (sleep 600 &)
        echo changed > edited.txt
        """
    )
    assert finished.outcome == "completed"


def test_an_agent_can_kill_only_its_own_processes(hostile: HostileService) -> None:
    finished = hostile.shell(
        """
        sleep 600 & sleep 600 &
        kill -9 -1; kill -9 1; kill -TERM 1; kill -STOP 1; kill -9 0 2>/dev/null
        """
    )
    assert finished.outcome == "agent_failed"
    finished = hostile.shell("sleep 600 & kill -9 -1; kill -9 1; kill -STOP 1; echo x > edited.txt")
    assert finished.outcome == "completed"


def test_changes_of_a_failed_agent_are_not_committed(hostile: HostileService) -> None:
    finished = hostile.shell("echo changed > edited.txt; exit 255")
    assert finished.outcome == "agent_failed"
    assert "exit code 255" in finished.message
    assert finished.pushed is None


def test_an_agent_that_kills_itself_is_reported_as_by_a_shell(hostile: HostileService) -> None:
    finished = hostile.shell("kill -SEGV $$")
    assert finished.outcome == "agent_failed"
    assert "exit code 139" in finished.message


def test_hostile_and_ordinary_agents_do_not_affect_each_other(hostile: HostileService) -> None:
    bomb = "while :; do sh -c 'sleep 1 &'; done"
    bombs = [hostile.start("crowded", shell=bomb, timeout_seconds=1) for _ in range(2)]
    others = [hostile.api.create("acme/shop", "ordinary") for _ in range(4)]
    for job_id in bombs:
        job = hostile.api.wait_status(job_id, "failed")
        assert job["error"]["code"] in {"timeout", "agent_failed"}
    for job_id in others:
        hostile.api.wait_status(job_id, "completed")
    hostile.check_unharmed()
