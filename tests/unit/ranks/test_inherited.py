"""What of two machines' environments reaches a rank."""

from __future__ import annotations

from airlane.ranks.inherited import moved, rank_environment, to_send


def environment(
    node: dict[str, str],
    driver: dict[str, str],
    own: dict[str, str] | None = None,
    moves: dict[str, str] | None = None,
    *,
    path: bool = True,
) -> dict[str, str]:
    return rank_environment(node, to_send(driver), own or {}, moves or {}, path=path)


def test_what_the_user_exported_reaches_the_ranks_of_every_node() -> None:
    driver = {"MLFLOW_RUN_ID": "r1", "HF_TOKEN": "s", "PYTHONPATH": "/code", "MY": "1", "NCCL_DEBUG": "INFO"}
    assert environment({"MY": "0"}, driver) == driver


def test_what_belongs_to_a_machine_is_the_nodes_own() -> None:
    names = ("HOME", "HOSTNAME", "TMPDIR", "USER", "SSH_CLIENT", "XDG_RUNTIME_DIR", "PWD")
    node = dict.fromkeys(names, "node")
    assert environment(node, dict.fromkeys(names, "driver")) == node


def test_what_a_machine_does_not_have_is_not_taken_from_the_launchers() -> None:
    assert environment({}, {"TMPDIR": "/driver/tmp", "HOSTNAME": "driver"}) == {}


def test_the_network_of_a_node_is_its_own_and_the_launchers_where_it_says_nothing() -> None:
    node = {"NCCL_IB_HCA": "=mlx5_0:1", "LD_LIBRARY_PATH": "/node"}
    driver = {"NCCL_IB_HCA": "=mlx5_9:1", "NCCL_DEBUG": "WARN", "LD_LIBRARY_PATH": "/driver", "FI_PROVIDER": "efa"}
    assert environment(node, driver) == {**driver, **node}


def test_ranks_and_devices_of_an_outer_launcher_are_not_taken_for_our_own() -> None:
    outer = {
        "RANK": "7",
        "SLURM_PROCID": "3",
        "PMIX_RANK": "1",
        "OMPI_COMM_WORLD_RANK": "2",
        "TORCHELASTIC_RUN_ID": "x",
        "CUDA_VISIBLE_DEVICES": "5",
        "MASTER_PORT": "1",
    }
    assert environment(outer, outer) == {}


def test_what_ray_set_for_its_worker_is_not_for_the_rank() -> None:
    node = {
        "OMP_NUM_THREADS": "1",
        "PYTHONBREAKPOINT": "ray.util.rpdb.set_trace",
        "RAY_JOB_ID": "01",
        "RAY_RAYLET_PID": "4",
        "AIR_STOPS_LAST": "/tmp/ray",
        "RAY_AUTH_TOKEN_PATH": "/token",
        "KEPT": "1",
    }
    assert environment(node, {}) == {"RAY_AUTH_TOKEN_PATH": "/token", "KEPT": "1"}


def test_a_number_of_threads_that_the_user_chose_is_kept() -> None:
    assert environment({"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "12"}) == {"OMP_NUM_THREADS": "12"}


def test_the_launchers_path_goes_with_its_python_and_stays_away_without() -> None:
    node, driver = {"PATH": "/node"}, {"PATH": "/driver"}
    assert environment(node, driver) == driver
    assert environment(node, driver, path=False) == node


def test_the_launcher_itself_has_the_last_word() -> None:
    assert environment({"RANK": "9"}, {"A": "driver"}, {"RANK": "0", "A": "own"}) == {"RANK": "0", "A": "own"}


def test_a_node_with_a_copy_of_the_code_of_its_own_reads_that_one() -> None:
    driver = {"CODE_SOURCE_PATH": "/run/a/code", "PYTHONPATH": "/run/a/code:/lib:/run/a/code/src"}
    node = {"CODE_SOURCE_PATH": "/run/b/code"}
    moves = {"/run/a/code": "/run/b/code"}
    assert environment(node, driver, moves=moves) == {
        "CODE_SOURCE_PATH": "/run/b/code",
        "PYTHONPATH": "/run/b/code:/lib:/run/b/code/src",
    }


def test_where_the_node_says_nothing_of_the_code_the_launchers_place_is_told() -> None:
    assert environment({}, {"CODE_SOURCE_PATH": "/code"}) == {"CODE_SOURCE_PATH": "/code"}


def test_only_whole_paths_move() -> None:
    moves = {"/a/b": "/c"}
    texts = ["/a/b", "/a/b/x y", "--f=/a/b/z", "/a/bc", "/x/a/b", "s3:///a/b", "1,/a/b,2", "~/a/b"]
    assert [moved(text, moves) for text in texts] == [
        "/c",
        "/c/x y",
        "--f=/c/z",
        "/a/bc",
        "/x/a/b",
        "s3:///a/b",
        "1,/c,2",
        "~/a/b",
    ]


def test_a_path_with_signs_of_a_pattern_moves_like_any_other() -> None:
    assert moved("/a (1)+/x", {"/a (1)+": r"/b\1"}) == r"/b\1/x"
