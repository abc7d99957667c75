"""Reading git's diff output into files and numbered lines."""

from agentjobs.forges.patch import DiffLine, parse_diff

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
    assert diff.files[0].lines == (DiffLine("note", "Binary file, not shown"),)


def test_a_cut_diff_keeps_whole_lines_of_the_files_it_reached() -> None:
    whole = RAW + b"M\0a.py\0" + RAW + b"M\0z.py\0\0" + PATCH
    cut = whole[: whole.index(b" one too")]
    diff = parse_diff(cut, complete=False)
    assert [file.path for file in diff.files] == ["a.py"]
    assert diff.files[0].lines[-1].kind == "removed"
    assert (diff.changed_files, diff.complete) == (2, False)


def test_a_list_of_files_that_is_cut_loses_only_its_last_entry() -> None:
    diff = parse_diff(RAW + b"M\0a.py\0" + RAW + b"M\0half-a-na", complete=False)
    assert (diff.files, diff.changed_files) == ((), 1)


def test_an_endless_line_is_shortened() -> None:
    patch = b"diff --git a/m b/m\n@@ -0,0 +1 @@\n+" + b"x" * 100_000 + b"\n"
    diff = parse_diff(RAW + b"A\0m\0\0" + patch, complete=True)
    assert len(diff.files[0].lines[1].text) < 3_000


def test_nothing_changed_is_an_empty_diff() -> None:
    assert parse_diff(b"", complete=True).files == ()
