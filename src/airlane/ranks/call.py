"""`python .../call.py FOLDER`: a rank that is a function, pickled in FOLDER, where its result goes. Used on nodes."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def main(folder: str) -> None:
    import pickle

    with open(os.path.join(folder, "call.pickle"), "rb") as file:
        paths, function = pickle.load(file)  # noqa: S301 - the launcher's own words
        sys.path += [path for path in paths if path not in sys.path and os.path.isdir(path)]
        call = pickle.loads(function)  # noqa: S301
    import ray.cloudpickle  # type: ignore[import-not-found,unused-ignore]

    sys.excepthook = show_error  # Ray has set its own

    result = ray.cloudpickle.dumps(call())
    with open(os.path.join(folder, "result.pickle"), "wb") as file:
        file.write(result)


def show_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The traceback of the function, without the lines that called it."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != here]  # its modules are no one's top-level names
    main(sys.argv[1])
