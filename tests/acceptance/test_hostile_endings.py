"""Agents that do not want to end, or want others to end."""

from tests.support.hostile_service import House

STUBBORN = "trap '' TERM INT HUP QUIT USR1; echo up; while :; do sleep 600; done"


def test_an_agent_that_stops_and_ignores_every_signal_is_ended_by_the_clock(house: House) -> None:
    script = f"({STUBBORN}) & sleep 600 & kill -STOP $!; trap '' TERM HUP; kill -STOP $$"
    ended = house.shell(script, timeout_seconds=1)
    assert ended.verdict == "timeout"
    assert ended.message == "The agent did not finish within 1 seconds."


def test_an_agent_that_ignores_every_signal_can_be_cancelled(house: House) -> None:
    job_id = house.start(shell=f'(setsid sh -c "{STUBBORN}" &) ; {STUBBORN}')
    house.heard(job_id, "up\nup")
    assert house.api.http.post(f"/jobs/{job_id}/cancel").status_code == 202
    ended = house.end(job_id)
    assert (ended.job["status"], ended.verdict) == ("cancelled", "cancelled")
    assert house.api.http.post(f"/jobs/{job_id}/cancel").status_code == 409


def test_a_fork_bomb_can_be_cancelled(house: House) -> None:
    script = "print('up', flush=True)\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    job_id = house.start("crowded", python=script)
    house.heard(job_id, "up")
    house.api.http.post(f"/jobs/{job_id}/cancel")
    assert house.end(job_id).verdict == "cancelled"


def test_a_daemon_does_not_fail_the_job_and_does_not_outlive_it(house: House) -> None:
    ended = house.python(
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
    assert ended.verdict == "completed"
    assert b"daemon.txt" in ended.branch.files()


def test_daemons_that_hold_the_output_open_do_not_hold_up_the_job(house: House) -> None:
    ended = house.shell(
        """
        nohup setsid sh -c 'while :; do echo still here; sleep 0.01; done' &
        (sleep 600 &)
        echo changed > edited.txt
        """
    )
    assert ended.verdict == "completed"


def test_an_agent_can_kill_only_its_own_processes(house: House) -> None:
    ended = house.shell(
        """
        sleep 600 & sleep 600 &
        kill -9 -1; kill -9 1; kill -TERM 1; kill -STOP 1; kill -9 0 2>/dev/null
        """
    )
    assert ended.verdict == "agent_failed"
    ended = house.shell("sleep 600 & kill -9 -1; kill -9 1; kill -STOP 1; echo x > edited.txt")
    assert ended.verdict == "completed"


def test_a_change_of_an_agent_that_fails_is_not_proposed(house: House) -> None:
    ended = house.shell("echo changed > edited.txt; exit 255")
    assert ended.verdict == "agent_failed"
    assert "exit code 255" in ended.message
    assert ended.pushed is None


def test_an_agent_killed_by_itself_is_told_as_a_shell_does(house: House) -> None:
    ended = house.shell("kill -SEGV $$")
    assert ended.verdict == "agent_failed"
    assert "exit code 139" in ended.message


def test_two_hostile_agents_and_many_ordinary_ones_do_not_meet(house: House) -> None:
    bomb = "while :; do sh -c 'sleep 1 &'; done"
    bombs = [house.start("crowded", shell=bomb, timeout_seconds=1) for _ in range(2)]
    others = [house.api.create("acme/shop", "ordinary") for _ in range(4)]
    for job_id in bombs:
        job = house.api.wait_status(job_id, "failed")
        assert job["error"]["code"] in {"timeout", "agent_failed"}
    for job_id in others:
        house.api.wait_status(job_id, "completed")
    house.check_unharmed()
