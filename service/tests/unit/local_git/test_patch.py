"""Reading git's diff output into files and numbered lines."""

from agentjobs.local_git.patch import DiffBounds, DiffLine, parse_diff

RAW = b":100644 100644 1111111 2222222 "
PATCH = b"""diff --git a/a.py b/a.py
index 1111111..2222222 100644
--- a/a.py
+++ b/a.py
@@ -3,3 +3,3 @@ def f():
 same
--- a/looks like a header
+++ b/looks like one too
 end
\\ No newline at end of file
"""


def test_lines_carry_the_numbers_of_both_sides() -> None:
    diff = parse_diff(RAW + b"M\0a.py\0\0" + PATCH, complete=True)
    (file,) = diff.files
    assert (file.path, file.change, file.additions, file.deletions) == ("a.py", "modified", 1, 1)
    assert file.lines == (
        DiffLine("hunk", "@@ -3,3 +3,3 @@ def f():"),
        DiffLine("context", "same", 3, 3),
        DiffLine("removed", "-- a/looks like a header", 4, None),
        DiffLine("added", "++ b/looks like one too", None, 4),
        DiffLine("context", "end", 5, 5),
        DiffLine("note", "No newline at end of file"),
    )


def test_names_come_from_the_raw_part_where_they_cannot_be_mistaken() -> None:
    name = b"we ird\n\xc3\xa9\xff.txt"
    patch = b'diff --git "a/we..." "b/we..."\n@@ -1 +1 @@\n-a\n+b\n'
    diff = parse_diff(RAW + b"M\0" + name + b"\0\0" + patch, complete=True)
    assert diff.files[0].path == "we ird\né\N{REPLACEMENT CHARACTER}.txt"


def test_a_rename_keeps_both_names() -> None:
    patch = b"diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n"
    diff = parse_diff(RAW + b"R100\0old\0new\0\0" + patch, complete=True)
    (file,) = diff.files
    assert (file.change, file.old_path, file.path, file.lines) == ("renamed", "old", "new", ())


def test_a_file_that_became_a_link_takes_both_of_its_sections() -> None:
    patch = (
        b"diff --git a/x b/x\ndeleted file mode 100644\n@@ -1 +0,0 @@\n-text\n"
        b"diff --git a/x b/x\nnew file mode 120000\n@@ -0,0 +1 @@\n+/etc/passwd\n"
        b"diff --git a/y b/y\n@@ -1 +1 @@\n-1\n+2\n"
    )
    diff = parse_diff(RAW + b"T\0x\0" + RAW + b"M\0y\0\0" + patch, complete=True)
    assert [(file.path, file.additions, file.deletions) for file in diff.files] == [
        ("x", 1, 1),
        ("y", 1, 1),
    ]
    assert DiffLine("note", "new file mode 120000") in diff.files[0].lines


def test_a_binary_file_is_named_and_not_shown() -> None:
    patch = b"diff --git a/i b/i\nindex 1..2 100644\nBinary files a/i and b/i differ\n"
    diff = parse_diff(RAW + b"M\0i\0\0" + patch, complete=True)
    assert diff.files[0].lines == (DiffLine("note", "Binary or large file not shown"),)


def test_a_cut_diff_keeps_whole_lines_of_the_files_it_reached() -> None:
    whole = RAW + b"M\0a.py\0" + RAW + b"M\0z.py\0\0" + PATCH
    cut = whole[: whole.index(b" one too")]
    diff = parse_diff(cut, complete=False)
    reached, beyond = diff.files
    assert (reached.path, reached.complete, reached.lines[-1].kind) == ("a.py", False, "removed")
    assert (beyond.path, beyond.complete, beyond.counted, beyond.lines) == (
        "z.py",
        False,
        False,
        (),
    )
    assert (diff.changed_files, diff.complete) == (2, False)


def test_a_list_of_files_that_is_cut_loses_only_its_last_entry() -> None:
    diff = parse_diff(RAW + b"M\0a.py\0" + RAW + b"M\0half-a-na", complete=False)
    assert [(file.path, file.lines) for file in diff.files] == [("a.py", ())]
    assert not diff.complete


def test_an_endless_line_is_shortened() -> None:
    patch = b"diff --git a/m b/m\n@@ -0,0 +1 @@\n+" + b"x" * 100_000 + b"\n"
    diff = parse_diff(RAW + b"A\0m\0\0" + patch, complete=True)
    assert len(diff.files[0].lines[1].text) == 4_001


def test_nothing_changed_is_an_empty_diff() -> None:
    assert parse_diff(b"", complete=True).files == ()


def test_a_file_of_too_many_lines_is_cut_and_its_numbers_are_those_git_counted() -> None:
    patch = b"diff --git a/m b/m\n@@ -0,0 +1,90 @@\n" + b"+x\n" * 90
    output = RAW + b"A\0m\0" + b"90\t0\tm\0\0" + patch
    diff = parse_diff(output, complete=True, bounds=DiffBounds(file_lines=10))
    (file,) = diff.files
    assert (len(file.lines), file.complete, diff.complete) == (10, False, False)
    assert (file.additions, diff.additions, file.counted) == (90, 90, True)


def test_the_lines_of_a_page_are_bounded() -> None:
    listing = b"".join(RAW + b"A\0%d\0" % n for n in range(9))
    numbers = b"".join(b"3\t0\t%d\0" % n for n in range(9))
    patch = b"".join(
        b"diff --git a/%d b/%d\n@@ -0,0 +1,3 @@\n+1\n+2\n+3\n" % (n, n) for n in range(9)
    )
    bounds = DiffBounds(files=5, lines=10)
    diff = parse_diff(listing + numbers + b"\0" + patch, complete=True, bounds=bounds)
    assert [len(file.lines) for file in diff.files] == [4, 4, 2, 0, 0]
    assert [file.complete for file in diff.files] == [True, True, False, False, False]
    assert (diff.changed_files, diff.additions, diff.complete) == (9, 27, False)


def test_the_numbers_of_a_renamed_file_are_found_by_its_new_name() -> None:
    patch = b"diff --git a/old b/new\n@@ -1 +1 @@\n-a\n+b\n"
    output = RAW + b"R090\0old\0new\0" + b"5\t4\t\0old\0new\0\0" + patch
    (file,) = parse_diff(output, complete=True).files
    assert (file.path, file.old_path, file.additions, file.deletions) == ("new", "old", 5, 4)
