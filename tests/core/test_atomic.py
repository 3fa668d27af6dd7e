"""Writing files: whole or not at all, through links and devices, and without traces."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from latentbits.core import atomic
from latentbits.core.atomic import check_writable, write_atomically


def put(path, data=b"new"):
    with write_atomically(path) as file:
        file.write(data)


def test_a_new_file_is_an_ordinary_one(tmp_path):
    old = os.umask(0o027)
    try:
        put(tmp_path / "x")
    finally:
        os.umask(old)
    assert (tmp_path / "x").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["x"]


def test_an_existing_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o606)
    put(path)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o606


def test_a_name_as_long_as_names_may_be(tmp_path):
    path = tmp_path / ("x" * 255)
    check_writable(path)
    put(path)
    assert path.read_bytes() == b"new"
    for write in (check_writable, put):
        with pytest.raises(OSError, match=r"cannot write .*xxx: File name too long"):
            write(tmp_path / ("x" * 256))


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_its_file_is_written(tmp_path, exists):
    (tmp_path / "far").mkdir()
    goal, link, chain = tmp_path / "far" / "goal", tmp_path / "link", tmp_path / "chain"
    if exists:
        goal.write_bytes(b"old")
    link.symlink_to("far/goal")
    chain.symlink_to(link)
    check_writable(chain)
    assert goal.exists() == exists
    put(chain)
    assert (chain.is_symlink(), link.is_symlink(), goal.is_symlink()) == (True, True, False)
    assert goal.read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["chain", "far", "link"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.symlink_to(path), "symbolic links"),
        (lambda path: path.symlink_to("nowhere/goal"), "there is no folder .*nowhere"),
        (lambda path: path.mkdir(), "it is a folder"),
    ],
    ids=["loop", "dangling", "folder"],
)
def test_what_cannot_be_written_to_is_named_and_left(tmp_path, make, message):
    path = tmp_path / "x"
    make(path)
    before = path.lstat()
    for write in (check_writable, put):
        with pytest.raises(OSError, match=f"cannot write {re.escape(str(path))}: .*{message}"):
            write(path)
    assert path.lstat() == before
    assert os.listdir(tmp_path) == ["x"]


def test_a_parent_that_is_no_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for write in (check_writable, put):
        with pytest.raises(NotADirectoryError, match=r"cannot write .*file/x: Not a directory"):
            write(tmp_path / "file" / "x")


@pytest.fixture
def full(tmp_path):
    """A device that is always full: not that of the machine where another can be made, for a bug would replace it."""
    if not os.path.exists("/dev/full"):
        pytest.skip("Linux has a device that is always full")
    path = tmp_path / "full"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.stat("/dev/full").st_rdev)
        path.open("rb").close()  # not where the file system has no devices
    except PermissionError:
        path.unlink(missing_ok=True)
        path.symlink_to("/dev/full")
    return path


def test_a_device_is_written_through(full):
    before = full.lstat().st_ino
    with pytest.raises(OSError, match=r"cannot write .*full: No space left on device") as caught:
        put(full)
    assert caught.value.errno == errno.ENOSPC
    check_writable(full)  # that it is full is seen when it is written
    assert full.lstat().st_ino == before
    assert stat.S_ISCHR(full.stat().st_mode)


def test_a_pipe_is_written_through(tmp_path):
    path, got = tmp_path / "pipe", []
    os.mkfifo(path)
    check_writable(path)  # does not wait for a reader
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    with write_atomically(path) as file:
        file.write(b"xxx")
        file.seek(0)  # as a zip file does
        file.write(b"new")
    reader.join()
    assert got == [b"new"]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_our_own_stdout(tmp_path, kind):
    code = """
import os
from latentbits.core.atomic import check_writable, write_atomically
print("before")
check_writable("/dev/stdout")
with write_atomically("/dev/stdout") as file:
    file.write(b"new\\n")
print("after")
"""
    out = tmp_path / "out"
    with out.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=file if kind == "file" else subprocess.PIPE,
            check=True,
        )
    assert (out.read_bytes() if kind == "file" else done.stdout) == b"before\nnew\nafter\n"


def test_a_file_that_grows_too_large_is_named(tmp_path):
    """A limit on the size of files stands for a full disk."""
    code = """
import resource, sys
from latentbits.core.atomic import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    with write_atomically(sys.argv[1]) as file:
        file.write(bytes(1000))
except OSError as error:
    print(error)
"""
    path = tmp_path / "x"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == f"[Errno {errno.EFBIG}] cannot write {path}: File too large\n"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_the_check_changes_nothing(tmp_path):
    path = tmp_path / "x"
    check_writable(path)
    assert os.listdir(tmp_path) == []
    path.write_bytes(b"old")
    before = path.stat()
    check_writable(path)
    assert path.stat() == before
    assert os.listdir(tmp_path) == ["x"]


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    code = """
import os, signal, sys
from latentbits.core.atomic import write_atomically
with write_atomically(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / "x"
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode < 0
    (left,) = os.listdir(tmp_path)
    assert atomic.TEMPORARY.fullmatch(left)
    put(tmp_path / "another")
    assert os.listdir(tmp_path) == ["another"]


def test_what_is_being_written_is_left_alone(tmp_path):
    strange = tmp_path / ".latentbits-0123456789abcdef.tmp.bak"
    strange.write_bytes(b"")
    with write_atomically(tmp_path / "x") as file:
        file.write(b"first")
        put(tmp_path / "y")
    assert (tmp_path / "x").read_bytes() == b"first"
    assert sorted(os.listdir(tmp_path)) == [strange.name, "x", "y"]


def test_without_locks_age_tells(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "fcntl", None)
    young, old = (tmp_path / f".latentbits-{letter * 16}.tmp" for letter in "ab")
    for path in (young, old):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * atomic.FORGOTTEN_SECONDS,) * 2)
    put(tmp_path / "x")
    assert sorted(os.listdir(tmp_path)) == [young.name, "x"]


def test_without_locks_no_open_file_is_removed(tmp_path, monkeypatch):
    """As on Windows, which refuses to."""
    opened = []

    def keep(path, *args, open_file=os.open):
        opened.append(open_file(path, *args))
        return opened[-1]

    def remove(path, missing_ok=False, unlink=Path.unlink):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(opened[-1])
        unlink(path, missing_ok)

    monkeypatch.setattr(atomic, "fcntl", None)
    monkeypatch.setattr(os, "open", keep)
    monkeypatch.setattr(Path, "unlink", remove)
    check_writable(tmp_path / "x")
    put(tmp_path / "x")
    assert len(opened) == 2
    assert os.listdir(tmp_path) == ["x"]


def test_a_link_in_the_place_of_a_temporary_file_is_not_followed(tmp_path):
    goal = tmp_path / "goal"
    goal.write_bytes(b"mine")
    (tmp_path / ".latentbits-0123456789abcdef.tmp").symlink_to(goal)
    put(tmp_path / "x")
    assert goal.read_bytes() == b"mine"
