"""Files in and out of a pod, whatever the agent did to them."""

import io
import stat
import tarfile

import pytest

from tests.support.supervisor import python, shell
from tests.support.supervisor_client import archive_of, contents_of


def changed(client, files, script, **fields):
    """What the download has after the script changed the uploaded files."""
    client.upload(archive_of(files))
    ended = client.run(shell(script, **fields))
    assert ended["exit_code"] == 0, bytes(client.output)
    return client.download()


def tar_blocks(archive: bytes) -> bytes:
    """Without the end, so that another archive can follow."""
    return archive.rstrip(b"\0").ljust(-(-len(archive.rstrip(b"\0")) // 512) * 512, b"\0")


def test_an_upload_keeps_modes_times_and_links(client, supervisor):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, kind, mode, link in (
            ("./", tarfile.DIRTYPE, 0o700, ""),
            ("./closed", tarfile.DIRTYPE, 0o555, ""),
            ("./closed/program", tarfile.REGTYPE, 0o755, ""),
            ("./link", tarfile.SYMTYPE, 0o777, "../../outside"),
            ("./same", tarfile.LNKTYPE, 0o755, "./closed/program"),
            ("./pipe", tarfile.FIFOTYPE, 0o600, ""),
            ("./" + "long/" * 40 + "n" * 200, tarfile.REGTYPE, 0o600, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.linkname, member.mtime = (
                kind,
                mode,
                link,
                1_600_000_000,
            )
            archive.addfile(member)
    client.upload(buffer.getvalue())
    root = supervisor.workspace
    assert stat.S_IMODE((root / "closed").stat().st_mode) == 0o555
    assert stat.S_IMODE((root / "closed/program").stat().st_mode) == 0o755
    assert (root / "closed").stat().st_mtime == (root / "link").lstat().st_mtime == 1_600_000_000
    assert (root / "link").readlink().as_posix() == "../../outside"
    assert (root / "same").samefile(root / "closed/program")
    assert (root / ("long/" * 40) / ("n" * 200)).exists()


def test_a_later_upload_replaces_what_is_there(client, supervisor):
    first = {"a": None, "a/b": None, "a/b/file": b"1", "c": b"old", "d": b"file"}
    client.upload(archive_of(first, modes={"a/b": 0o500}))
    (supervisor.workspace / "link").symlink_to("a")
    client.upload(
        archive_of({"a": b"now a file", "c": b"new", "d": None, "link": None, "link/x": b""})
    )
    root = supervisor.workspace
    assert (root / "a").read_bytes() == b"now a file"
    assert (root / "c").read_bytes() == b"new"
    assert (root / "d").is_dir()
    assert stat.S_ISDIR((root / "link").lstat().st_mode)


def test_the_last_entry_of_a_directory_gives_its_mode(client, supervisor):
    """The upper layer of a tree repeats directories of the lower one, or replaces them."""
    lower = tar_blocks(archive_of({"a": None, "a/b": None, "c": None, "c/d": None}))
    upper = archive_of({"a": None, "a/b": None, "a/b/file": b"", "c": b"file"}, modes={"a": 0o300})
    client.upload(lower + upper)
    root = supervisor.workspace
    modes = [stat.S_IMODE((root / name).stat().st_mode) for name in ("a", "a/b", "c")]
    assert modes == [0o300, 0o755, 0o644]


@pytest.mark.parametrize("name", ["../escape", "/escape", "a/../../escape", "link/escape"])
def test_an_upload_does_not_leave_its_directory(client, supervisor, name):
    (supervisor.workspace / "link").symlink_to("/run/agentjobs")
    with pytest.raises(ConnectionResetError, match="escape"):
        client.upload(archive_of({name: b"x"}))
    assert not list(supervisor.run_dir.rglob("escape"))


@pytest.mark.parametrize(
    ("archive", "error"),
    [
        (b"x" * 5000, "invalid tar header"),
        (archive_of({"file": b"x" * 5000})[:3000], "unexpected EOF"),
    ],
)
def test_a_broken_upload_is_said(client, archive, error):
    with pytest.raises(ConnectionResetError, match=error):
        client.upload(archive)
    client.ping()


def test_what_an_earlier_run_deleted_is_removed(client, supervisor):
    files = {"a/b/c": b"", "a/kept": b"", "closed": None, "closed/x": b"", "new\nline": b""}
    client.upload(archive_of(files, modes={"closed": 0o500}), track=False)
    paths = (b"a/b", b"a/b/c", b"closed/x", b"new\nline", b"none/at/all")
    client.upload(b"".join(path + b"\0" for path in paths), kind="remove")
    left = {str(path.relative_to(supervisor.workspace)) for path in supervisor.workspace.rglob("*")}
    assert left == {"a", "a/kept", "closed"}
    assert stat.S_IMODE((supervisor.workspace / "closed").stat().st_mode) == 0o500


@pytest.mark.parametrize("path", [b"../escape", b"/escape", b"link/escape"])
def test_a_removal_does_not_leave_its_directory(client, supervisor, path):
    (supervisor.workspace / "link").symlink_to("/run/agentjobs")
    (supervisor.run_dir / "escape").touch()
    with pytest.raises(ConnectionResetError, match="escape"):
        client.upload(path + b"\0", kind="remove")
    assert (supervisor.run_dir / "escape").exists()


def test_an_upload_to_a_directory_that_does_not_exist_is_said(client):
    with pytest.raises(ConnectionResetError, match="/none"):
        client.upload(archive_of({"a": b""}), "/none")


def test_only_what_changed_comes_back(client):
    files = {"same": b"1", "content": b"1", "mode": b"1", "dir": None, "dir/in": b"1", "swap": b"1"}
    script = """
        printf 2 > content; touch -r same content; chmod 755 mode; chmod 700 dir
        rm swap; mkdir swap; echo x > swap/new; ln -s same link; ln same second; mkfifo pipe
    """
    changes = changed(client, files, script)
    # A second name changes the first, too.
    assert sorted(changes) == [
        *("content", "dir", "link", "mode", "same", "second", "swap", "swap/new")
    ]
    assert (changes["dir"].mode, changes["mode"].mode) == (0o700, 0o755)
    assert changes["link"].target == "same"
    assert changes["second"].kind == "F"
    assert contents_of(changes)["second"] == b"1"
    assert client.deletions() == [b"swap"]


def test_a_change_right_after_the_start_is_seen(client):
    """With the same size and time: only the time of the change tells, and clocks tick slowly."""
    files = {f"f{number}": b"old" for number in range(20)}
    script = "for f in f*; do printf new > $f; touch -d @1700000000 $f; done"
    assert len(changed(client, files, script)) == 20


def test_a_deleted_tree_is_listed_with_everything_in_it(client):
    files = {"a": None, "a/b": None, "a/b/c": b"", "d": b"", "e": None, "e/f": b""}
    changed(client, files, "rm -r a; rm -r e; echo x > e")
    assert client.deletions() == [b"a", b"a/b", b"a/b/c", b"e", b"e/f"]


def test_names_are_any_bytes(client):
    script = (
        "import os; [open(os.fsencode('n') + c, 'w') for c in (b'\\n', b'\\xff\\xfe', b'l' * 254)]"
    )
    client.upload(archive_of({}))
    assert client.run(python(script))["exit_code"] == 0
    names = [name.encode(errors="surrogateescape") for name in client.download()]
    assert sorted(names) == sorted([b"n\n", b"n\xff\xfe", b"n" + b"l" * 254])


def test_closed_directories_and_files_are_read_and_keep_their_modes(client):
    script = """
        mkdir -p a/b; echo secret > a/b/file; chmod 0 a/b/file; chmod 0 a/b; chmod 200 a
        chmod 0 old; chmod 0 .
    """
    changes = changed(client, {"old": None, "old/file": b"1"}, script)
    # The second download finds what the first one had to open.
    for downloaded in (changes, client.download()):
        modes = {name: member.mode for name, member in downloaded.items()}
        assert modes == {"a": 0o200, "a/b": 0, "a/b/file": 0, "old": 0}
    assert contents_of(changes) == {"a/b/file": b"secret\n"}
    assert client.deletions() == []


def test_links_are_sent_as_links_and_never_followed(client):
    script = """
        ln -s /etc etc; ln -s /proc/1/environ environ; ln -s loop loop
        rm -r dir; ln -s /usr dir
    """
    changes = changed(client, {"dir": None, "dir/bin": None, "dir/bin/sh": b"x"}, script)
    assert {n: m.target for n, m in changes.items()} == {
        "dir": "/usr",
        "environ": "/proc/1/environ",
        "etc": "/etc",
        "loop": "loop",
    }
    assert client.deletions() == [b"dir", b"dir/bin", b"dir/bin/sh"]


DEEP = """if True:
    import os, sys
    for _ in range(int(sys.argv[1])):
        os.mkdir(sys.argv[2])
        os.chdir(sys.argv[2])
    open("file", "w")
"""


def test_a_deep_tree_comes_back(client):
    client.upload(archive_of({}))
    assert client.run(python(DEEP, "500", "d"))["exit_code"] == 0
    assert "d/" * 500 + "file" in client.download()


def test_a_tree_too_deep_for_any_path_is_refused_in_words(client):
    client.upload(archive_of({"kept": b""}))
    assert client.run(python(DEEP, "17", "d" * 250))["exit_code"] == 0
    with pytest.raises(ConnectionResetError, match="longer than 4095 bytes"):
        client.download()


def test_a_directory_that_the_agent_removed_is_said(client):
    client.upload(archive_of({"a": b""}), "/run/agentjobs/report")
    assert client.run(shell("rm -r /run/agentjobs/report"))["exit_code"] == 0
    with pytest.raises(ConnectionResetError, match="/run/agentjobs/report"):
        client.download("/run/agentjobs/report")


def test_changes_below_a_tracked_directory_are_told(client):
    client.upload(
        archive_of({"report": None, "report/old": b"", "job.json": b""}), "/run/agentjobs"
    )
    assert client.run(shell("cd /run/agentjobs/report; rm old; echo x > new"))["exit_code"] == 0
    assert list(client.download("/run/agentjobs/report")) == ["new"]
    assert client.deletions("/run/agentjobs/report") == [b"old"]


def test_what_a_file_has_beyond_the_limit_is_left_out(client):
    client.upload(archive_of({}))
    assert client.run(shell("truncate -s 1T huge; printf 12345 > exact"))["exit_code"] == 0
    members = client.download(max_file_bytes=5)
    assert {name: len(member.content) for name, member in members.items()} == {
        "exact": 5,
        "huge": 5,
    }


def test_a_download_that_the_worker_closes_ends(client):
    client.upload(archive_of({}))
    # Sparse: it would take long to send.
    assert client.run(shell("truncate -s 1T huge"))["exit_code"] == 0
    stream = client.open("download", path="/workspace")
    stream.receive_frame()
    stream.close()
    client.ping()
