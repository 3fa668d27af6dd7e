"""Folders that are kept from one process to the next, and files that are read only if they are the user's own."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from latentbits.core import folders, program_cache
from latentbits.core.errors import DownloadError
from latentbits.data import fetch


def test_a_user_without_a_home_has_no_cache(monkeypatch, tmp_path):
    """Containers run as users whom passwd does not list, without HOME."""

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("LATENTBITS_CACHE", raising=False)
    assert folders.cache_folder() is None
    assert program_cache._path("0" * 64) is None
    entry = {"files": {"X": ("https://example.org/x.npz", None)}, "folder": {"file": "x.npz"}}
    with pytest.raises(DownloadError, match="set LATENTBITS_CACHE to one, or LATENTBITS_DATA"):
        fetch._fetch("x", entry, "X")
    monkeypatch.setenv("LATENTBITS_CACHE", str(tmp_path))
    assert folders.cache_folder() == tmp_path


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660, 0o602])
def test_files_that_others_can_write_are_not_read(tmp_path, mode):
    file = tmp_path / "x"
    file.write_bytes(b"all")
    file.chmod(mode)
    if mode in (0o600, 0o644):
        assert folders.read_own(file) == b"all"
    else:
        with pytest.raises(PermissionError, match="others can write it"):
            folders.read_own(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_links_and_pipes_are_not_read(tmp_path):
    """Somebody else may have put them there while the folder was open: a pipe would be waited for."""
    file, link, pipe = tmp_path / "x", tmp_path / "link", tmp_path / "pipe"
    file.write_bytes(b"all")
    file.chmod(0o600)
    link.symlink_to(file)
    with pytest.raises(OSError, match="link"):
        folders.read_own(link)
    os.mkfifo(pipe, 0o600)
    held = os.open(pipe, os.O_RDWR)
    threading.Timer(0.2, os.close, [held]).start()  # a reader would wait for so long
    with pytest.raises(PermissionError, match="no file"):
        folders.read_own(pipe)
