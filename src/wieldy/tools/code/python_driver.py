"""Run Python code as a session would: the value of a last expression is shown.

It is handed to the sandbox as text, and runs there as a program of its own.
"""

import ast
import contextlib
import os
import sys
import traceback
import types
from typing import Any

_NAME = "<code>"
# The mark of a figure that the code has saved itself.
_SAVED = "_wieldy_saved"


def main(path: str) -> int:
    """Run the code in a file; the exit code."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    # Modules that the code imports may lie beside the code, and never beside this file.
    sys.path[0] = ""
    sys.argv = [_NAME]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    _remember_source(source)
    _offer_figures()
    try:
        _run(source, vars(module))
    except SystemExit:
        raise
    except BaseException as error:
        _show_error(error)
        return 1
    finally:
        with contextlib.suppress(Exception):
            _save_figures()
    return 0


def _run(source: str, names: dict[str, Any]) -> None:
    tree = ast.parse(source, _NAME)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    # Not inherited from this file: the code has its own imports from the future.
    exec(compile(tree, _NAME, "exec", dont_inherit=True), names)
    if isinstance(last, ast.Expr):
        _show(eval(compile(ast.Expression(last.value), _NAME, "eval", dont_inherit=True), names))


def _show(value: Any) -> None:
    """Show a value: a picture as a file, anything else as a session prints it."""
    draw = getattr(type(value), "_repr_png_", None)
    drawn = draw(value) if callable(draw) else None
    data = drawn[0] if isinstance(drawn, tuple) else drawn
    if isinstance(data, bytes) and data:
        with open(_free_name("picture"), "wb") as file:
            file.write(data)
        return
    sys.displayhook(value)


def _show_error(error: BaseException) -> None:
    """Print an exception without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.stdout.flush()
    traceback.print_exception(type(error), error, trace)


def _remember_source(source: str) -> None:
    """Let tracebacks and `inspect` find the lines of the code."""
    import linecache  # noqa: PLC0415 - only the first lines of a long program need to be quick

    lines = source.splitlines(keepends=True)
    linecache.cache[_NAME] = (len(source), None, lines, _NAME)


def _offer_figures() -> None:
    """Make figures of matplotlib files that come back when they are shown."""
    module = types.ModuleType("wieldy_figures")
    vars(module)["__getattr__"] = _make_backend
    sys.modules["wieldy_figures"] = module
    os.environ["MPLBACKEND"] = "module://wieldy_figures"


def _make_backend(name: str) -> Any:
    """A part of the backend, which is made when matplotlib asks for it."""
    from matplotlib.backends.backend_agg import (  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
        FigureCanvasAgg,
    )

    class FigureCanvas(FigureCanvasAgg):  # type: ignore[misc, unused-ignore]
        def print_figure(self, *args: Any, **options: Any) -> Any:
            vars(self.figure)[_SAVED] = True
            return super().print_figure(*args, **options)

    def show(*_: Any, **__: Any) -> None:
        _save_figures(close=True)

    backend = vars(sys.modules["wieldy_figures"])
    backend.update(FigureCanvas=FigureCanvas, show=show)
    if name not in backend:
        raise AttributeError(name)
    return backend[name]


def _save_figures(close: bool = False) -> None:
    """Write the figures that are open and were not saved."""
    plots = sys.modules.get("matplotlib.pyplot")
    if plots is None:
        return
    for number in plots.get_fignums():
        figure = plots.figure(number)
        if not vars(figure).get(_SAVED):
            figure.savefig(_free_name("figure"))
        if close:
            plots.close(figure)


def _free_name(stem: str) -> str:
    number = 1
    while os.path.lexists(f"{stem}-{number}.png"):
        number += 1
    return f"{stem}-{number}.png"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
