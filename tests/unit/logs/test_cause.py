from __future__ import annotations

import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airlane.logs.cause import Finding, find_cause


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / 'it\'s a "log" é\nnew line'


def cause(
    log: Path, text: str | bytes, *, exit_code: int | None = 1, ended_by: str | None = None, oom_kill: bool = False
) -> Finding:
    log.write_bytes(text.encode() if isinstance(text, str) else text)
    return find_cause(log, exit_code=exit_code, signal=ended_by, oom_kill=oom_kill)


USER_ERROR = """\
step 10  loss 1.842
Traceback (most recent call last):
  File "/tmp/code/train.py", line 40, in <module>
    main()
    ~~~~^^
  File "/tmp/code/train.py", line 31, in main
    model = build(width)
  File "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 98, in __init__
    raise ValueError("width must be positive")
ValueError: width must be positive
"""


def test_a_traceback_gives_its_last_line_and_the_user_s_own_frame(log: Path) -> None:
    assert cause(log, USER_ERROR) == Finding(
        "ValueError: width must be positive",
        (
            'File "/tmp/code/train.py", line 31, in main',
            "  model = build(width)",
            "ValueError: width must be positive",
        ),
    )


def test_cuda_out_of_memory_of_a_rank_wins_over_its_peers_complaints(log: Path) -> None:
    found = cause(
        log,
        """\
[rank1]: Traceback (most recent call last):
[rank0]:[W1130 10:21:07.1 ProcessGroupNCCL.cpp:1250] Warning: WARNING: destroy_process_group() was not called
[rank1]:   File "/tmp/code/train.py", line 12, in step
[rank0]: Traceback (most recent call last):
[rank1]:     loss = model(batch)
[rank0]:   File "/tmp/code/train.py", line 14, in step
[rank0]:     dist.all_reduce(loss)
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has 79.10 GiB
[rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error
[rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
W1130 10:21:08.2 api.py:900] Sending process 4242 closing signal SIGTERM
E1130 10:21:09.3 api.py:874] failed (exitcode: 1) local_rank: 1 (pid: 4243) of binary: python
Traceback (most recent call last):
  File "/env/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
""",
    )
    assert found.title == "CUDA out of memory"
    assert found.lines == (
        'File "/tmp/code/train.py", line 12, in step',
        "  loss = model(batch)",
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has 79.10 GiB",
    )
    assert found.hint == "a smaller batch size, gradient accumulation, or activation checkpointing"


def test_the_exception_inside_a_ray_worker_is_found_behind_ray_s_own(log: Path) -> None:
    found = cause(
        log,
        """\
\x1b[36m(RayTrainWorker pid=814, ip=10.2.0.17)\x1b[0m Setting up process group for: env:// [rank=1, world_size=2]
\x1b[33m(raylet)\x1b[0m something about disk
Traceback (most recent call last):
  File "/tmp/code/train_ray.py", line 88, in <module>
    trainer.fit()
  File "/env/lib/python3.11/site-packages/ray/train/v2/api/data_parallel_trainer.py", line 160, in fit
    raise result.error
ray.train.WorkerGroupError: Training failed due to worker errors:
[Rank 1 Error Snippet]:
Traceback (most recent call last):
  File "/tmp/code/train_ray.py", line 51, in train_loop
    batch = rows["textt"]
KeyError: 'textt'
""",
    )
    assert found.title == "KeyError: 'textt'"
    assert found.lines[-1] == "KeyError: 'textt'"


def test_a_remote_ray_exception_that_goes_on_after_its_name_is_read_to_its_root(log: Path) -> None:
    found = cause(
        log,
        """\
Traceback (most recent call last):
  File "drive.py", line 9, in <module>
    ray.get(f.remote())
ray.exceptions.RayTaskError(ValueError): ray::f() (pid=811, ip=10.0.0.1)
  File "drive.py", line 5, in f
    raise ValueError("no such split: traim")
ValueError: no such split: traim
""",
    )
    assert found.title == "ValueError: no such split: traim"
    assert found.lines[0] == 'File "drive.py", line 5, in f'


def test_an_exception_raised_from_another_is_its_consequence(log: Path) -> None:
    found = cause(
        log,
        """\
Traceback (most recent call last):
  File "data.py", line 4, in read
    parse(row)
ValueError: row 17 has 3 columns, not 4

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "data.py", line 9, in load
    raise RuntimeError("could not load the data") from error
RuntimeError: could not load the data
""",
    )
    assert found.title == "ValueError: row 17 has 3 columns, not 4"


@pytest.mark.parametrize(
    ("first", "second", "title"),
    [
        ("RuntimeError: the optimizer diverged", "AttributeError: 'NoneType' object has no attribute 'close'", 0),
        ("KeyError: 'qwen9'", "ValueError: unknown model qwen9; there are qwen2, qwen3", 1),
    ],
)
def test_of_two_exceptions_the_first_counts_unless_it_was_a_look_up(
    log: Path, first: str, second: str, title: int
) -> None:
    found = cause(
        log,
        f"""\
Traceback (most recent call last):
  File "a.py", line 4, in f
    work()
{first}

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 6, in f
    clean_up()
{second}
""",
    )
    assert found.title == (first, second)[title]


def test_an_exception_group_names_the_exception_inside(log: Path) -> None:
    found = cause(
        log,
        """\
  + Exception Group Traceback (most recent call last):
  |   File "g.py", line 3, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "g.py", line 9, in fetch
    |     raise OSError(28, "No space left on device")
    | OSError: [Errno 28] No space left on device
    +------------------------------------
""",
    )
    assert found.title == "no space left on device"


def test_a_traceback_on_the_line_of_a_progress_bar_is_seen(log: Path) -> None:
    found = cause(
        log,
        "  1%|▏ | 1/100\r  3%|▎ | 3/100 [00:01<00:30, 3.1it/s]Traceback (most recent call last):\n"
        '  File "t.py", line 1, in <module>\n    f()\nZeroDivisionError: division by zero\n',
    )
    assert found.title == "ZeroDivisionError: division by zero"


def test_a_failure_that_was_survived_gives_way_to_the_last_one(log: Path) -> None:
    retried = (
        "CUDA out of memory. Trying a batch of 16 instead of 32\n"
        + "".join(f"step {n} loss 1.0\n" for n in range(400))
        + USER_ERROR
    )
    assert cause(log, retried).title == "ValueError: width must be positive"


def test_the_cause_in_the_head_of_a_huge_log_is_found_when_nothing_better_follows(log: Path) -> None:
    found = cause(
        log,
        "OSError: [Errno 28] No space left on device: '/data/cache'\n" + "step\n" * 400_000 + "worker died\n",
    )
    assert found.title == "no space left on device"


def test_a_huge_log_is_not_read_whole(log: Path) -> None:
    with log.open("wb") as file:
        file.truncate(8 << 30)  # a hole: reading it would take minutes
        file.seek(0, 2)
        file.write(b"\n" + USER_ERROR.encode())
    assert find_cause(log, exit_code=1, signal=None, oom_kill=False).title == "ValueError: width must be positive"


SYNTAX_ERROR = """\
  File "/tmp/code/train.py", line 3
    def main(:
             ^
SyntaxError: invalid syntax
"""

MODULE = """\
Traceback (most recent call last):
  File "/tmp/code/train.py", line 1, in <module>
    import cv2
ModuleNotFoundError: No module named 'cv2'
"""

GATED = """\
Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/huggingface_hub/utils/_http.py", line 409, in hf_raise_for_status
    response.raise_for_status()
requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/m/resolve/main/config.json

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "train.py", line 3, in <module>
    AutoModel.from_pretrained("m")
OSError: You are trying to access a gated repo.
Make sure to have access to it at https://huggingface.co/m.
"""

OFFLINE = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    AutoModel.from_pretrained("m")
OSError: We couldn't connect to 'https://huggingface.co' to load this file
"""

ACCELERATE = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    AutoModel.from_pretrained("m", device_map="auto")
ImportError: Using `device_map` requires Accelerate: `pip install 'accelerate>=0.26.0'`
"""

PORT = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    dist.init_process_group("gloo")
torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address.
The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
"""

LIBRARY = """\
Traceback (most recent call last):
  File "train.py", line 1, in <module>
    import cv2
ImportError: libGL.so.1: cannot open shared object file: No such file or directory
"""

MISSING_FILE = """\
Traceback (most recent call last):
  File "train.py", line 1, in <module>
    open("data/train.csv")
FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'
"""


@pytest.mark.parametrize(
    ("text", "exit_code", "title"),
    [
        (SYNTAX_ERROR, 1, "SyntaxError: invalid syntax"),
        (MODULE, 1, "the module cv2 is not installed"),
        ("/env/bin/python: No module named torchrun\n", 1, "the module torchrun is not installed"),
        (GATED, 1, "the model hub refused access"),
        (OFFLINE, 1, "the model hub cannot be reached"),
        (ACCELERATE, 1, "a package is missing"),
        (PORT, 1, "the port is in use"),
        (LIBRARY, 1, "the shared library libGL.so.1 is missing"),
        (MISSING_FILE, 1, "no such file: data/train.csv"),
        ("python: can't open file '/c/tran.py': [Errno 2] No such file or directory\n", 2, "no such file: /c/tran.py"),
        ("command.sh: line 3: torchrunn: command not found\n", 127, "command not found: torchrunn"),
        ("command.sh: line 3: ./train.sh: Permission denied\n", 126, "permission denied: ./train.sh"),
        ("command.sh: line 3: ./gone.sh: No such file or directory\n", 127, "no such file: ./gone.sh"),
        ("command.sh: line 5: DATA_DIR: unbound variable\n", 1, "the variable DATA_DIR is not set"),
        ("command.sh: line 5: syntax error near unexpected token `fi'\n", 2, "the command is not valid bash"),
        ("train.py: error: unrecognized arguments: --lrr\n", 2, "the program did not understand its arguments"),
        ("command.sh: line 2:  4242 Killed                  python train.py\n", 137, "killed"),
        ("command.sh: line 2:  4242 Segmentation fault      python train.py\n", 139, "segmentation fault"),
        ("command.sh: line 2:  4242 Bus error               python train.py\n", 135, "bus error"),
        ("command.sh: line 2:  4242 Illegal instruction     python x.py\n", 132, None),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n", 1, None),
        ("RuntimeError: Found no NVIDIA driver on your system.\n", 1, "no working GPU driver"),
        ("RuntimeError: CUDA error: device-side assert triggered\n", 1, "an index is out of range in a CUDA kernel"),
        ("cp: error writing '/data/x': No space left on device\n", 1, "no space left on device"),
        ("OSError: [Errno 122] Disk quota exceeded: '/home/me/x'\n", 1, "disk quota exceeded"),
        ("OSError: [Errno 24] Too many open files\n", 1, "too many open files"),
        ("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array\n", 1, None),
        (
            "RuntimeError: DataLoader worker (pid 814) is killed by signal: Bus error. It is possible...\n",
            1,
            "the data loader ran out of shared memory",
        ),
        (
            "RuntimeError: DataLoader worker (pid 814) is killed by signal: Killed.\n",
            1,
            "a data loader worker was killed",
        ),
        (
            "[rank0]:[E1130 10:20:30 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout\n",
            134,
            "NCCL timeout: a rank did not reach the collective",
        ),
        (
            "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation\n",
            1,
            "gloo timeout: a rank did not answer",
        ),
        (
            "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:4021\n",
            1,
            "gloo: a peer went away",
        ),
        (
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.\n",
            1,
            "the rendezvous on node 0 was not reached",
        ),
        (
            "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed\n",
            1,
            "Ray ended a worker because the node ran out of memory",
        ),
        ("Loss is nan, stopping training\n", 1, "the loss is not a number"),
        ("/bin/x: /lib/libc.so.6: version `GLIBC_2.38' not found (required by x)\n", 1, None),
        ('Traceback (most recent call last):\n  File "t.py", line 1\n    f()\nKeyboardInterrupt\n', 130, "interrupted"),
    ],
)
def test_known_failures_are_named(log: Path, text: str, exit_code: int, title: str | None) -> None:
    titles = {
        "Illegal instruction": "the program has instructions this CPU lacks",
        "CUBLAS_STATUS_ALLOC_FAILED": "CUDA out of memory",
        "Unable to allocate": "out of memory on the host",
        "GLIBC": "a library needs a newer system",
    }
    found = cause(log, "step 1\nstep 2\n" + text + "bye\n", exit_code=exit_code)
    assert found.title == (title or next(value for key, value in titles.items() if key in text))
    assert found.lines
    assert set(found.lines) & {line.strip() for line in text.splitlines()}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (MODULE, "add opencv-python-headless to environment.dependencies (or your own code to code_source)"),
        (ACCELERATE, "add accelerate to environment.dependencies"),
        (GATED, "give the run a token: secrets: {HF_TOKEN: hf/token}, after air secrets set hf/token"),
        (
            "command.sh: line 5: DATA_DIR: unbound variable\n",
            "set it in env_variables, or write ${DATA_DIR:-} where it may be missing",
        ),
    ],
)
def test_the_hint_says_what_to_change(log: Path, text: str, hint: str) -> None:
    assert cause(log, text).hint == hint


def test_a_syntax_error_shows_its_line(log: Path) -> None:
    assert cause(log, SYNTAX_ERROR).lines == tuple(SYNTAX_ERROR.rstrip().splitlines())


def test_an_out_of_memory_kill_on_the_host_is_named_without_any_line(log: Path) -> None:
    found = cause(log, "step 1\nstep 2\n", exit_code=None, ended_by="SIGKILL", oom_kill=True)
    assert (found.title, found.lines) == ("out of memory on the host", ("step 1", "step 2"))


def test_an_out_of_memory_kill_explains_a_killed_worker(log: Path) -> None:
    text = "RuntimeError: DataLoader worker (pid 814) is killed by signal: Killed.\n"
    found = cause(log, text, exit_code=1, oom_kill=True)
    assert (found.title, found.lines) == ("out of memory on the host", (text.strip(),))


def test_an_out_of_memory_kill_elsewhere_does_not_hide_an_exception(log: Path) -> None:
    assert cause(log, USER_ERROR, oom_kill=True).title == "ValueError: width must be positive"


@pytest.mark.parametrize(
    ("exit_code", "name", "title"),
    [
        (None, "SIGSEGV", "segmentation fault"),
        (139, None, "segmentation fault"),
        (137, None, "killed (SIGKILL)"),
        (143, None, "ended by SIGTERM"),
        (141, None, "a pipe was closed before its writer had ended"),
        (128 + signal.SIGUSR1, None, "ended by SIGUSR1"),
        (124, None, "a time limit inside the command was reached"),
        (127, None, "command not found"),
        (3, None, None),
        (255, None, None),
        (None, None, None),
    ],
)
def test_how_the_command_ended_tells_what_the_log_does_not(
    log: Path, exit_code: int | None, name: str | None, title: str | None
) -> None:
    found = cause(log, "one\ntwo\n", exit_code=exit_code, ended_by=name)
    assert (found.title, found.lines) == (title, ("one", "two"))


def test_a_crash_is_told_before_an_exception_that_was_only_printed(log: Path) -> None:
    assert cause(log, USER_ERROR, exit_code=139).title == "segmentation fault"


def test_without_any_sign_the_last_lines_are_shown(log: Path) -> None:
    found = cause(log, "".join(f"line {n}\n\n" for n in range(50)), exit_code=3)
    assert found == Finding(None, tuple(f"line {n}" for n in range(42, 50)))


def test_long_lines_and_many_lines_are_cut(log: Path) -> None:
    found = cause(log, 'Traceback (most recent call last):\n  File "t.py", line 1\n    f()\nValueError: ' + "x" * 5000)
    assert found.title is not None
    assert len(found.title) == 120
    assert max(map(len, found.lines)) == 300
    assert len(found.lines) <= 8


def test_a_log_that_is_not_there_or_is_not_text_is_no_problem(log: Path) -> None:
    assert find_cause(log, exit_code=1, signal=None, oom_kill=False) == Finding(None, ())
    assert cause(log, bytes(range(256)) * 2000).title is None


def test_words_that_only_sound_like_a_failure_are_not_taken_for_one(log: Path) -> None:
    text = "no errors found\nkilled time waiting\nloss is 0.3\nretrying after error\nsaved exceptions.json\n"
    assert cause(log, text, exit_code=3).title is None


PIECES = [line for text in (USER_ERROR, SYNTAX_ERROR, MODULE, GATED) for line in text.splitlines()] + [
    "",
    "   ",
    "During handling of the above exception, another exception occurred:",
    "[rank1]: Traceback (most recent call last):",
    "ray.exceptions.RayTaskError(ValueError): ray::f()",
    "{name} {0} %s",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=20)), st.sampled_from([None, 0, 1, 2, 127, 137, 139, 300]))
def test_any_log_gives_a_finding_that_fits_the_screen(lines: list[str], exit_code: int | None) -> None:
    with TemporaryDirectory() as folder:
        log = Path(folder, "log")
        found = cause(log, "\n".join(lines).encode("utf-8", "surrogatepass"), exit_code=exit_code)
    assert len(found.lines) <= 8
    assert all("\n" not in line and "\x1b" not in line for line in found.lines)


def test_a_ray_cluster_that_failed_is_the_cause_whatever_the_driver_said_before(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text(
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory\n"
        "Ray cluster failed: the raylet on node 1 (beta) has ended\n"
        "  [2026-11-30 20:10:28,770 F 20 20] (raylet) node_manager.cc:1: Check failed\n"
        "\n"
    )
    found = find_cause(log, exit_code=1, signal=None, oom_kill=False)
    assert found.title == "the raylet on node 1 (beta) has ended"
    assert [line.split()[0] for line in found.lines] == ["Ray", "[2026-11-30"]
