"""`python .../call.py FOLDER`: a rank that is a function, pickled in FOLDER, where its result goes. Used on nodes."""

from __future__ import annotations

import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def main(folder: Path) -> None:
    import pickle

    with (folder / "call.pickle").open("rb") as file:
        paths, function = pickle.load(file)  # noqa: S301 - the launcher's own words
        sys.path += [path for path in paths if path not in sys.path and Path(path).is_dir()]
        call = pickle.loads(function)  # noqa: S301
    import ray.cloudpickle  # type: ignore[import-not-found,unused-ignore]

    sys.excepthook = show_error  # Ray has set its own

    result = ray.cloudpickle.dumps(call())
    (folder / "result.pickle").write_bytes(result)


def show_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The traceback of the function, without the lines that called it."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [path for path in sys.path if path != here]  # its modules are no one's top-level names
    main(Path(sys.argv[1]))
