"""Deploying to a folder: versions, concurrency, disks that refuse, and readers that never stop looking."""

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

from components.pusher import content
from components.pusher.base_folder import BaseFolder
from components.pusher.config import PushTarget
from components.pusher.deployer import Deployer
from components.pusher.errors import PushError


def test_push_publishes_a_whole_copy(pushing, exported, tmp_path):
    result = pushing.deployer(tmp_path).push(exported["double"])
    assert result.outcome == "pushed"
    assert not result.observed
    assert result.destination == str(tmp_path / "line" / str(result.version))
    assert pushing.digest(pathlib.Path(result.destination)) == pushing.digest(exported["double"]) == result.digest
    assert (pathlib.Path(result.destination) / "assets").is_dir()


def test_same_content_is_pushed_once(pushing, exported, tmp_path):
    first = pushing.deployer(tmp_path).push(exported["double"])
    second = pushing.deployer(tmp_path).push(exported["double"])
    assert (second.outcome, second.version) == ("unchanged", first.version)
    assert len(BaseFolder(str(tmp_path), "line").versions()) == 1


def test_same_content_is_pushed_again_where_the_live_copy_was_damaged(pushing, exported, tmp_path):
    first = pushing.deployer(tmp_path).push(exported["double"])
    (pathlib.Path(first.destination) / "variables" / "variables.index").write_bytes(b"")
    second = pushing.deployer(tmp_path).push(exported["double"])
    assert second.outcome == "pushed"
    assert second.version > first.version


def test_pushes_within_one_second_and_a_clock_set_back(pushing, exported, tmp_path):
    versions = [
        pushing.deployer(tmp_path, clock=lambda now=now: now).push(exported[name]).version
        for now, name in ((1000.2, "double"), (1000.9, "triple"), (5.0, "double"), (1000.0, "triple"))
    ]
    assert versions == [1000, 1001, 1002, 1003]


def test_version_numbers_are_above_folders_that_others_made(pushing, exported, tmp_path):
    for name in ("0002000", "3000", "not-a-version", ".hidden", "9" * 30):
        (tmp_path / "line" / name).mkdir(parents=True)
    assert pushing.deployer(tmp_path, clock=lambda: 10).push(exported["double"]).version == 3001


def test_highest_possible_version_is_refused(pushing, exported, tmp_path):
    (tmp_path / "line" / str(2**63 - 1)).mkdir(parents=True)
    with pytest.raises(PushError, match="remove that folder"):
        pushing.deployer(tmp_path).push(exported["double"])


@pytest.mark.parametrize("with_our_state", [True, False])
def test_emptied_base_gets_the_model_again(pushing, with_our_state, exported, tmp_path):
    first = pushing.deployer(tmp_path).push(exported["double"])
    for path in (tmp_path / "line").iterdir():
        if path.name.isdigit() or not with_our_state:
            shutil.rmtree(path)
    second = pushing.deployer(tmp_path).push(exported["double"])
    assert second.outcome == "pushed"
    assert pushing.digest(pathlib.Path(second.destination)) == pushing.digest(exported["double"])
    assert second.version > first.version or not with_our_state


def test_old_versions_are_retired_and_rollback_returns_to_the_one_before(pushing, exported, tmp_path):
    results = [pushing.deployer(tmp_path).push(exported[name]) for name in ("double", "triple", "double", "triple")]
    folder = BaseFolder(str(tmp_path), "line")
    assert list(folder.versions()) == [results[2].version, results[3].version]
    back = pushing.deployer(tmp_path).rollback()
    assert (back.version, back.previous_version) == (results[2].version, results[3].version)
    assert list(folder.versions()) == [results[2].version]
    # A number once used is never used again, so the bad model's number stays free of another's content.
    assert pushing.deployer(tmp_path, clock=lambda: 1).push(exported["triple"]).version == results[3].version + 1


def test_more_versions_are_kept_on_request_and_folders_of_others_always(pushing, exported, tmp_path):
    (tmp_path / "line" / "5").mkdir(parents=True)
    results = []
    for name in ("double", "triple", "double", "triple", "double"):
        target = PushTarget(base=str(tmp_path), name="line", keep_versions=4)
        results.append(Deployer(target, verify=lambda *_: {}).push(exported[name]).version)
    assert list(BaseFolder(str(tmp_path), "line").versions()) == [5, *results[1:]]


def test_published_model_is_readable_by_a_server_that_runs_as_another_user(pushing, exported, tmp_path):
    before = os.umask(0o077)
    try:
        result = pushing.deployer(tmp_path).push(exported["double"])
    finally:
        os.umask(before)
    version = pathlib.Path(result.destination)
    modes = {path.stat().st_mode & 0o777 for path in (version, *version.rglob("*"))}
    assert modes == {0o755, 0o644}


@pytest.mark.parametrize("crash", [False, True])
def test_folder_that_another_tool_made_under_our_number_is_left_alone(crash, pushing, exported, tmp_path):
    folder = BaseFolder(str(tmp_path), "line")

    class CrashError(BaseException):
        pass

    def intrude(name: str) -> None:
        if name == "before PUBLISHED":
            (tmp_path / "line" / "1000" / "not-ours").mkdir(parents=True)
            if crash:
                raise CrashError

    with pytest.raises(CrashError if crash else PushError, match=None if crash else "was made by somebody else"):
        pushing.deployer(tmp_path, clock=lambda: 1000, boundary=intrude).push(exported["double"])
    assert pushing.deployer(tmp_path, clock=lambda: 1000).push(exported["double"]).version == 1001
    assert list(folder.versions()) == [1000, 1001]
    assert (folder.path / "1000" / "not-ours").is_dir()


def test_not_a_model(pushing, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").write_text("hello")
    with pytest.raises(PushError, match=r"no saved_model\.pb"):
        pushing.deployer(tmp_path).push(tmp_path / "notes")
    with pytest.raises(PushError, match="no such model folder"):
        pushing.deployer(tmp_path).push(tmp_path / "nowhere")


def test_link_that_leads_nowhere_and_a_pipe_are_refused(pushing, models, tmp_path):
    (models["double"] / "assets" / "vocabulary").symlink_to("/nowhere")
    with pytest.raises(PushError, match="leads nowhere"):
        pushing.deployer(tmp_path).push(models["double"])
    os.mkfifo(models["triple"] / "assets" / "pipe")
    with pytest.raises(PushError, match="not a plain file"):
        pushing.deployer(tmp_path).push(models["triple"])


def test_linked_files_are_copied_not_linked(pushing, models, tmp_path):
    moved = tmp_path / "elsewhere.index"
    index = models["double"] / "variables" / "variables.index"
    index.rename(moved)
    index.symlink_to(moved)
    result = pushing.deployer(tmp_path).push(models["double"])
    assert not (pathlib.Path(result.destination) / "variables" / "variables.index").is_symlink()


def test_two_deployers_at_once_one_waits(pushing, exported, tmp_path):
    running = [
        pushing.start(base=str(tmp_path), model=str(exported[name]), keep_versions=9) for name in ("double", "triple")
    ]
    results = [pushing.finish(process) for process in running]
    assert [result["outcome"] for result in results] == ["pushed", "pushed"]
    folder = BaseFolder(str(tmp_path), "line")
    assert pushing.digests(folder) == {
        results[0]["version"]: pushing.digest(exported["double"]),
        results[1]["version"]: pushing.digest(exported["triple"]),
    }


def test_two_deployers_at_once_one_loses_cleanly(pushing, exported, tmp_path):
    folder = BaseFolder(str(tmp_path), "line")
    with folder.locked(timeout_s=1):
        result = pushing.run(base=str(tmp_path), model=str(exported["double"]), lock_timeout_s=0.2)
    assert "another push is at work" in result["error"]
    assert f'"pid": {os.getpid()}' in result["error"]
    assert folder.versions() == {}
    assert pushing.run(base=str(tmp_path), model=str(exported["double"]))["outcome"] == "pushed"


READER = textwrap.dedent(
    """
    import os, sys
    base, files = sys.argv[1], dict(pair.rsplit("=", 1) for pair in sys.argv[2].split(","))
    looks = seen = 0
    versions = set()
    print("ready", flush=True)
    while not os.path.exists(os.path.join(base, "stop")):
        looks += 1
        for name in os.listdir(base):
            if not name.isdigit():
                continue
            folder = os.path.join(base, name)
            try:
                sizes = {path: os.path.getsize(os.path.join(folder, path)) for path in files}
                with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
                    length = len(file.read())
            except FileNotFoundError:
                if os.path.isdir(folder):
                    sys.exit(f"{name} is incomplete")
                continue  # retired, whole, between the look and the read
            if {path: str(size) for path, size in sizes.items()} != files or str(length) != files["saved_model.pb"]:
                sys.exit(f"{name} is cut short: {sizes}")
            seen += 1
            versions.add(name)
    print(looks, seen, len(versions), flush=True)
    """
)


def test_a_reader_that_never_stops_looking_never_sees_half_a_model_through_50_pushes(pushing, models, tmp_path):
    (models["double"] / "assets" / "table").write_bytes(b"a" * (2 << 20))
    other = pathlib.Path(shutil.copytree(models["double"], tmp_path / "other"))
    (other / "assets" / "table").write_bytes(b"b" * (2 << 20))
    files = content.list_files(other)
    base = tmp_path / "line"
    base.mkdir()
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(base), ",".join(f"{path}={size}" for path, size in files.items())],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    for push in range(50):
        pushing.deployer(tmp_path).push(other if push % 2 else models["double"])
    (base / "stop").touch()
    output, error = reader.communicate(timeout=60)
    assert reader.returncode == 0, error
    looks, seen, versions = map(int, output.split())
    assert looks > 50
    assert seen > looks / 2
    assert versions > 10


def in_own_mount(environment: dict, tmp_path: pathlib.Path, options: str, steps: str) -> str:
    """Runs shell steps with a small tmpfs at $BASE, in a mount namespace of their own."""
    probe = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets no user make a mount namespace")
    base = tmp_path / "mount"
    base.mkdir()
    script = f"set -e; export BASE={base}; mount -t tmpfs -o {options} tmpfs $BASE; {steps}"
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout


def test_disk_too_small(pushing, models, tmp_path):
    (models["double"] / "assets" / "table").write_bytes(bytes(3 << 20))
    output = in_own_mount(
        pushing.environment, tmp_path, "size=2m", f"{pushing.command(models['double'])}; ls $BASE/line"
    )
    assert "the model needs 3.18 MB" in output
    assert output.splitlines()[-1].startswith("{"), "nothing was published"


def test_disk_fills_up_during_the_copy(pushing, exported, tmp_path):
    filling = pushing.command(exported["double"], ', "fill_at": "within STAGED"')
    output = in_own_mount(
        pushing.environment,
        tmp_path,
        "size=4m",
        f"{filling}; ls $BASE/line; rm $BASE/filler; {pushing.command(exported['double'])}",
    )
    failed, pushed = output.splitlines()
    assert "disk is full" in failed
    assert '"outcome": "pushed"' in pushed


def test_read_only_target(pushing, exported, tmp_path):
    output = in_own_mount(
        pushing.environment,
        tmp_path,
        "size=4m",
        f"mkdir $BASE/line; mount -o remount,ro $BASE; {pushing.command(exported['double'])}",
    )
    assert "it is read-only" in output


def test_target_under_a_file(pushing, exported, tmp_path):
    (tmp_path / "line").write_text("a file")
    with pytest.raises(PushError, match="cannot prepare the folder"):
        pushing.deployer(tmp_path).push(exported["double"])


def test_model_that_changes_during_the_copy(pushing, models, tmp_path, monkeypatch):
    """The copy is compared with the source as it is after the copy: a trainer still writing is noticed."""
    real_copy = shutil.copyfile

    def copy_then_write(source, target):
        real_copy(source, target)
        if source.name == "variables.index":
            source.write_bytes(b"x" * source.stat().st_size)

    monkeypatch.setattr(content.shutil, "copyfile", copy_then_write)
    with pytest.raises(PushError, match="changed while it was copied"):
        pushing.deployer(tmp_path).push(models["double"])
    assert BaseFolder(str(tmp_path), "line").versions() == {}


def test_target_survives_json(pushing):
    target = PushTarget(base="b", name="n", servers=("a:1",), warmup_batch_sizes=(1, 8))
    assert PushTarget.from_json(target.to_json()) == target
