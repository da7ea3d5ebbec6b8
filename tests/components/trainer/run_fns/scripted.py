"""Run_fns without TensorFlow: each does one thing that training processes do, so that a test takes a second.

They leave marks in fn_args.model_run_dir, by which a test knows how far a process is.
"""

import atexit
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time


def task():
    """This process's name, such as "worker-1"."""
    task = json.loads(os.environ.get("TF_CONFIG", '{"task": {"type": "worker", "index": 0}}'))["task"]
    return f"{task['type']}-{task['index']}"


def mark(fn_args, name, text=""):
    path = pathlib.Path(fn_args.model_run_dir, "marks", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{name}.{os.getpid()}")
    partial.write_text(text or str(os.getpid()))
    partial.rename(path)


def wait_for(fn_args, name):
    while not pathlib.Path(fn_args.model_run_dir, "marks", name).exists():
        time.sleep(0.01)


def attempt(fn_args):
    """How often this task has been started, this time included."""
    path = pathlib.Path(fn_args.model_run_dir, "marks", f"attempts-{task()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(".")
    return path.stat().st_size


def export(fn_args):
    folder = pathlib.Path(fn_args.serving_model_dir)
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_text(f"exported by {task()}")


def trains(fn_args):
    """Ends well; says what it was given."""
    given = {
        "tf_config": os.environ.get("TF_CONFIG"),
        "threads": os.environ.get("TF_NUM_INTRAOP_THREADS"),
        "fn_args": {k: v for k, v in vars(fn_args).items() if k[0] != "_"},
        "heavy": sorted({"tensorflow", "tfx", "apache_beam", "kubernetes"} & set(sys.modules)),
    }
    mark(fn_args, f"given-{task()}", json.dumps(given))
    print(f"hello from {task()}")
    export(fn_args)


def chief_exports_late(fn_args):
    """The chief exports for a while when the others have long returned; it says whether they are still there."""
    mark(fn_args, f"returns-{task()}")
    if task() == "worker-0":
        for other in ("worker-1", "worker-2"):
            wait_for(fn_args, f"returns-{other}")
        time.sleep(0.5)  # the others would be gone by now
        pids = [(pathlib.Path(fn_args.model_run_dir, "marks", f"returns-worker-{i}")).read_text() for i in (1, 2)]
        print("alive:", [pathlib.Path("/proc", pid).exists() for pid in pids])
        export(fn_args)


class _CrashesWhenDestroyed:
    """As protobuf's messages that Beam holds."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGSEGV)


def cannot_be_destroyed(fn_args):
    """Ends well, although an object of it would crash when Python destroys it; still has work to do."""
    sys.cannot_be_destroyed = [_CrashesWhenDestroyed()]
    export(fn_args)
    going_on = threading.Thread(target=lambda: (time.sleep(0.2), mark(fn_args, "thread")))
    going_on.start()
    atexit.register(lambda: mark(fn_args, "atexit", str(going_on.is_alive())))


def exports_nothing(fn_args):
    """Forgets to save."""


def one_raises(fn_args):
    """Worker 1 has an error of its own; the others wait for it as a collective would."""
    if task() == "worker-1":
        raise ValueError("the label of row 17 is neither 0 nor 1")
    wait_for(fn_args, "never")


def peers_see_it_first(fn_args):
    """Worker 1 is slow to end after its error, so that its peers end before it, with the code for a lost peer."""
    if task() == "worker-1":
        try:
            raise ValueError("the label of row 17 is neither 0 nor 1")
        finally:
            mark(fn_args, "raised")
            wait_for(fn_args, "peer-left-worker-0")
    wait_for(fn_args, "raised")
    mark(fn_args, f"peer-left-{task()}")
    sys.exit(138)


def fails_with_code(fn_args):
    class DataError(ValueError):
        exit_code = 3

    raise DataError("data/part-3: record 5 at byte 812 is corrupt")


def half_export_then_raises(fn_args):
    export(fn_args)
    raise RuntimeError("No space left on device")


def killed_at(fn_args):
    """The task and the moment named in custom_config get SIGKILL in the first attempt; afterwards all goes well.

    The others behave as training does: they leave with 138 when a peer is gone.
    """
    victim, moment = fn_args.custom_config["victim"], fn_args.custom_config["moment"]
    is_first = not pathlib.Path(fn_args.model_run_dir, "marks", "gone").exists()
    attempt(fn_args)
    for index in range(2):  # nobody may begin when the victim is gone already
        wait_for(fn_args, f"attempts-worker-{index}")

    def reach(name):
        if is_first and name == moment:
            if task() == victim:
                mark(fn_args, "gone")
                os.kill(os.getpid(), signal.SIGKILL)
            wait_for(fn_args, "gone")
            sys.exit(138)

    reach("start")
    reach("train")
    export(fn_args)
    reach("export")
    mark(fn_args, f"{task()}-done")


def preempted_twice(fn_args):
    """Is stopped from outside two times; what it has written until then is its checkpoint."""
    number = attempt(fn_args)
    if number < 3:

        class PreemptedError(RuntimeError):
            exit_code = 143

        raise PreemptedError(f"try {number}")
    export(fn_args)


def finds_no_room_twice(fn_args):
    """The disk is full two times; then somebody has made room."""
    if attempt(fn_args) < 3:

        class StorageError(RuntimeError):
            exit_code = 1
            keeps_work = True

        raise StorageError("No space left on device")
    export(fn_args)


def always_killed(fn_args):
    attempt(fn_args)
    os.kill(os.getpid(), signal.SIGKILL)


def stopped_once(fn_args):
    """Worker 1 is stopped (SIGSTOP) in the first attempt: alive, silent, and never to end by itself."""
    if attempt(fn_args) == 1:
        for index in range(3):
            wait_for(fn_args, f"attempts-worker-{index}")  # nobody's first attempt may be after the restart
        if task() == "worker-1":
            mark(fn_args, "stopped")
            os.kill(os.getpid(), signal.SIGSTOP)
        wait_for(fn_args, "stopped")
        sys.exit(138)
    export(fn_args)


def runs_until_told(fn_args):
    """Writes a checkpoint and ends with 143 on SIGTERM; has a child of its own that would run for an hour."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])

    class PreemptedError(RuntimeError):
        exit_code = 143

    def checkpoint(*_):
        mark(fn_args, f"checkpoint-{task()}")
        raise PreemptedError("asked to stop; saved at step 7 of 9")

    signal.signal(signal.SIGTERM, checkpoint)
    mark(fn_args, f"child-{task()}", str(child.pid))
    mark(fn_args, f"running-{task()}")
    wait_for(fn_args, "never")


def chief_saves_what_servers_hold(fn_args):
    """Everybody says when it is told to stop; the chief saves then."""

    class PreemptedError(RuntimeError):
        exit_code = 143

    def stop(*_):
        mark(fn_args, f"told-{task()}")
        raise PreemptedError("asked to stop;\nsaved at step 7 of 9")

    signal.signal(signal.SIGTERM, stop)
    mark(fn_args, f"running-{task()}")
    wait_for(fn_args, "never")


def ignores_sigterm(fn_args):
    signal.signal(signal.SIGTERM, lambda *_: mark(fn_args, f"told-{task()}"))
    mark(fn_args, f"running-{task()}")
    wait_for(fn_args, "never")


def parameter_servers(fn_args):
    """The chief trains; parameter servers and workers serve for ever."""
    mark(fn_args, f"running-{task()}")
    if task() == "chief-0":
        export(fn_args)
    elif task() != "evaluator-0":
        wait_for(fn_args, "never")


def chatters(fn_args):
    """Says what TensorFlow says at every start, and one thing that matters."""
    print("WARNING: All log messages before absl::InitializeLog() is called are written to STDERR")
    print("I0000 00:00:1796063204.070592    9302 port.cc:153] oneDNN custom operations are on. You may see slightly")
    print("W0000 00:00:1796063204.070592    9302 gpu_device.cc:2342] Cannot dlopen some GPU libraries.")
    print("To enable the following instructions: AVX2 AVX512F FMA, in other operations, rebuild TensorFlow")
    print("E0000 00:00:1796063204.070592    9302 cuda_platform.cc:52] failed call to cuInit: INTERNAL")
    print("E0000 00:00:1796063204.070592    9302 coordination_service.cc:7] a peer has failed")
    export(fn_args)


def waits_for_ever(fn_args):
    """Leaves signals as they are."""
    mark(fn_args, f"running-{task()}")
    wait_for(fn_args, "never")


def leaves_a_daemon(fn_args):
    """Starts a process in a session of its own, which keeps standard output open."""
    daemon = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    mark(fn_args, "daemon", str(daemon.pid))
    export(fn_args)


def stumbles_at_the_end(fn_args):
    """Worker 1 is still busy when the chief is gone, and crashes for that, as TensorFlow's coordination makes it."""
    attempt(fn_args)
    if task() == "worker-0":
        export(fn_args)
        mark(fn_args, "chief")
        return
    wait_for(fn_args, "chief")
    chief = pathlib.Path(fn_args.model_run_dir, "marks", "chief").read_text()
    while pathlib.Path("/proc", chief).exists():
        time.sleep(0.01)
    os.abort()


def hangs_at_the_end(fn_args):
    """Worker 1 hangs when the chief has exported."""
    if task() == "worker-0":
        wait_for(fn_args, "worker-1")
        export(fn_args)
    else:
        mark(fn_args, "worker-1")
        os.kill(os.getpid(), signal.SIGSTOP)
