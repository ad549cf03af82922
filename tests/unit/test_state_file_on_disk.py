"""State files on disk: the old file or the new one, and clear errors if there is none."""

import errno
import hashlib
import os
import re
import resource
import stat
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from streameval.errors import StateError
from streameval.state_files.codec import pack, unpack
from streameval.state_files.disk import read_file, write_atomically
from tests.crash.fuzz_state_file import forge

GOOD = pack({"a": np.array([1, 2]), "b": 1}, kind="x")


@pytest.fixture(params=["nameless", "named"])
def way(request, monkeypatch):
    """Both ways to the new file: without a name, as on Linux, and with one, as elsewhere."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return request.param


@pytest.mark.usefixtures("way")
def test_permissions_follow_the_old_file_or_the_umask(tmp_path):
    path = tmp_path / "a.state"
    before = os.umask(0o027)
    try:
        write_atomically(path, GOOD)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_atomically(path, GOOD)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(before)


@pytest.mark.usefixtures("way")
def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target", tmp_path / "link"
    link.symlink_to(Path("there") / "target")
    for data in (GOOD, pack({}, kind="x")):  # first the link points at nothing
        write_atomically(link, data)
        assert link.is_symlink()
        assert target.read_bytes() == data
    assert os.listdir(tmp_path / "there") == ["target"]


def failing(error):
    """A function that raises, whatever it is given."""

    def fail(*arguments, **options):
        raise error

    return fail


def unwritable(tmp_path):
    """Paths that fail for root as well, each with its reason."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    return {
        tmp_path / "missing" / "a.state": "No such file or directory",
        tmp_path / "file" / "a.state": "Not a directory",
        tmp_path / ("n" * 300): "File name too long",
        tmp_path / "loop": "Too many levels of symbolic links",
        tmp_path: "it is a directory, not a regular file",
        tmp_path / "pipe": "it is a pipe, not a regular file",
        Path("/dev/null"): "it is a device or socket, not a regular file",
        Path("/proc/a.state"): "",
        f"{tmp_path}/nul\0": "embedded null",
    }


@pytest.mark.usefixtures("way")
def test_what_cannot_be_written_is_said_and_nothing_is_left(tmp_path):
    paths = unwritable(tmp_path)
    before = sorted(os.listdir(tmp_path))
    for path, reason in paths.items():
        with pytest.raises(StateError) as caught:
            write_atomically(path, GOOD)
        name = str(path) if str(path).isprintable() else ascii(str(path))
        assert str(caught.value).startswith(f"{name}: cannot be written: ")
        assert reason in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == before
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.usefixtures("way")
def test_a_full_disk(tmp_path):
    path = tmp_path / "a.state"
    write_atomically(path, GOOD)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(StateError, match=r"a\.state: cannot be written: File too large"):
            write_atomically(path, bytes(10**6))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == GOOD
    assert os.listdir(tmp_path) == ["a.state"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(
    "error", [OSError(errno.EROFS, "Read-only file system"), KeyboardInterrupt()], ids=type
)
@pytest.mark.usefixtures("way")
def test_a_failure_at_any_step_leaves_the_old_file_alone(tmp_path, monkeypatch, step, error):
    path = tmp_path / "a.state"
    write_atomically(path, GOOD)
    monkeypatch.setattr(os, step, failing(error))
    expected = (
        pytest.raises(StateError, match="cannot be written: Read-only file system")
        if isinstance(error, OSError)
        else pytest.raises(KeyboardInterrupt)
    )
    with expected:
        write_atomically(path, pack({}, kind="x"))
    monkeypatch.undo()
    assert path.read_bytes() == GOOD
    assert os.listdir(tmp_path) == ["a.state"]


def test_the_content_reaches_the_disk_before_its_name_and_the_name_at_last(
    tmp_path, monkeypatch, way
):
    """An unfinished file has no name, where the system has such files."""
    steps, names = [], []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor):
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append("fsync of the directory" if is_directory else "fsync")
        names.append(os.listdir(tmp_path))
        real_fsync(descriptor)

    def replace(source, target):
        steps.append("replace")
        assert re.fullmatch(r"\.streameval-[0-9a-f]{16}\.tmp", Path(source).name)
        assert Path(source).read_bytes() == GOOD  # nothing is left in a buffer
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_atomically(tmp_path / "a.state", GOOD)
    assert steps == ["fsync", "replace", "fsync of the directory"]
    assert names[1] == ["a.state"]
    try:
        os.close(os.open(tmp_path, os.O_WRONLY | os.O_TMPFILE))
    except (AttributeError, OSError):
        return
    assert names[0] == [] or way == "named"


def no_directory(real, number):
    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        real(descriptor)

    return fsync


def no_nameless_file(real, number):
    def refuse(path, flags, *arguments, **options):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(number, os.strerror(number))
        return real(path, flags, *arguments, **options)

    return refuse


@pytest.mark.parametrize(
    ("call", "replaced", "number"),
    [
        ("fsync", no_directory, errno.EINVAL),
        ("open", no_nameless_file, errno.EOPNOTSUPP),
        ("link", lambda real, number: failing(OSError(number, "No /proc here")), errno.ENOENT),
    ],
)
def test_what_a_file_system_lacks_is_done_without(tmp_path, monkeypatch, call, replaced, number):
    monkeypatch.setattr(os, call, replaced(getattr(os, call), number))
    write_atomically(tmp_path / "a.state", GOOD)
    assert (tmp_path / "a.state").read_bytes() == GOOD
    assert os.listdir(tmp_path) == ["a.state"]


def test_a_directory_that_cannot_be_synced_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", no_directory(os.fsync, errno.EIO))
    with pytest.raises(StateError, match="cannot be written: Input/output error"):
        write_atomically(tmp_path / "a.state", GOOD)


def test_what_cannot_be_read_is_said(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "good").write_bytes(GOOD)
    (tmp_path / "bell\a").write_bytes(b"")
    cases = {
        tmp_path / "missing": "missing: cannot be read: No such file or directory",
        tmp_path: f"{tmp_path}: cannot be read: Is a directory",
        tmp_path / "pipe": "pipe: is a pipe, not a regular file",  # and does not wait for a writer
        Path("/dev/zero"): "/dev/zero: is a device or socket, not a regular file",
        tmp_path / "bell\a": r"bell\x07': is empty",
        f"{tmp_path}/nul\0": "cannot be read: embedded null",
    }
    for path, message in cases.items():
        with pytest.raises(StateError, match=re.escape(message)):
            read_file(path, kind="x")
    with pytest.raises(StateError, match="good: holds the state of kind 'x'; expected 'y'"):
        read_file(tmp_path / "good", kind="y")
    with pytest.raises(StateError, match=f"good: has {len(GOOD)} bytes; at most 99 are read here"):
        read_file(tmp_path / "good", kind="x", max_bytes=99)


def test_absurd_sizes_are_refused_before_they_are_read(tmp_path):
    size = 2**43  # a file of holes, 8 TB
    path = tmp_path / "sparse"
    for content, message in (
        (b"", "not a streameval state file"),
        (GOOD, f"has {size} bytes; its first part promises {len(GOOD)}"),
        (forge(b"{}", total=size), f"has {size} bytes; at most "),
    ):
        path.write_bytes(content)
        try:
            os.truncate(path, size)
        except OSError:
            pytest.skip("this file system has no files of 8 TB")
        tracemalloc.start()
        try:
            with pytest.raises(StateError, match=f"sparse: {message}"):
                read_file(path, kind="x")
            assert tracemalloc.get_traced_memory()[1] < 300_000  # the buffer of one open file
        finally:
            tracemalloc.stop()


def test_no_memory_left(tmp_path, monkeypatch):
    monkeypatch.setattr(hashlib, "sha256", failing(MemoryError()))
    with pytest.raises(StateError, match=f"{len(GOOD)} bytes of state do not fit into memory"):
        unpack(GOOD, kind="x")
    monkeypatch.undo()
    path = tmp_path / "a.state"
    path.write_bytes(GOOD)
    monkeypatch.setattr("streameval.state_files.disk._content", failing(MemoryError()))
    with pytest.raises(StateError, match=r"a\.state: does not fit into memory"):
        read_file(path, kind="x")
