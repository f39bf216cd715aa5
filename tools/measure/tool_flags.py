"""The command line of LiteRT's benchmark_model: its flags that ``benchmark`` takes, and those that it refuses.

Flags that both have under different names are in ``TFLITE_NAMES``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from ..common.flags import set_parameters
from .measure import WARM_UP_SECONDS

Option = functools.partial(typer.Option, rich_help_panel="As in LiteRT's benchmark_model")


@dataclass(frozen=True, kw_only=True)
class ToolFlags:
    """The options that ``benchmark`` has for command lines of benchmark_model."""

    graph: Annotated[
        list[str], Option(metavar="MODEL", help="The model. As there, the CPU is timed without --use-gpu or --backend.")
    ] = field(default_factory=list)
    use_gpu: Annotated[
        bool | None, Option("--use-gpu/--no-use-gpu", help="As there, in f16 if nothing else is said, with --read.")
    ] = None
    allow_fp16: Annotated[bool, Option("--allow-fp16", help="The same as --precision f16.")] = False
    min_secs: Annotated[float, Option(min=0.0, help="More frames than --runs, until so many seconds have passed.")] = (
        0.0
    )
    warmup_min_secs: Annotated[float, Option(min=0.0, help="Least seconds of the warm-up.")] = WARM_UP_SECONDS
    run_frequency: Annotated[
        float, Option(help="Timed frames per second at most, in place of --run-delay; 0 or less: no limit.")
    ] = -1.0
    require_full_delegation: Annotated[
        bool, Option("--require-full-delegation", help="End with 1 if an operator stays on the CPU.")
    ] = False
    op_profiling_output_mode: Annotated[
        Literal["stdout", "csv"], Option(help="csv: the times of --profile as CSV, all of them.")
    ] = "stdout"
    op_profiling_output_file: Annotated[Path | None, Option(help="The file for that CSV.")] = None
    profiling_output_csv_file: Annotated[Path | None, Option(help="The same, with --profile and CSV.")] = None
    output_filepath: Annotated[
        Path | None, Option(help="Write the bytes of the last frame's outputs, one after the other.")
    ] = None
    print_preinvoke_state: Annotated[
        bool, Option("--print-preinvoke-state", help="Print LiteRT's tensors before the first frame.")
    ] = False
    print_postinvoke_state: Annotated[
        bool, Option("--print-postinvoke-state", help="Print LiteRT's tensors after the last frame.")
    ] = False
    list_signatures: Annotated[bool, Option("--list-signatures", help="Print the names of signatures, and end.")] = (
        False
    )
    verbose: Annotated[bool, Option("--verbose", help="Print the value of each option to the standard error.")] = False

    @property
    def csv_file(self) -> Path | None:
        """The file for the profile as CSV."""
        return self.profiling_output_csv_file or self.op_profiling_output_file

    def check(self) -> None:
        """Raise typer.BadParameter for flags that contradict each other."""
        if self.op_profiling_output_file is not None and self.op_profiling_output_mode != "csv":
            raise typer.BadParameter(
                "the file is CSV: add --op-profiling-output-mode=csv", param_hint="--op-profiling-output-file"
            )


class Refused(NamedTuple):
    """A flag of benchmark_model that ``benchmark`` has no use for.

    ``values`` are those that ask for nothing else than what happens here; None: all of them. Others are an error that
    says why.
    """

    why: str
    values: tuple[str, ...] | None = ("false", "0", "")


_PROTO = "it writes a protocol buffer of TensorFlow; --json prints the same figures"
_CPU = "LiteRT's Python interpreter has no such option"
_PHONE = "framebind runs on OpenGL, OpenCL and CUDA, and beside them LiteRT's CPU kernels"
_NO_LOG = "there is no log of parameters and no prefix in the output; --json says which command it was"
_ALWAYS = "done always"

REFUSED = {
    **dict.fromkeys(("output-proto-filepath", "result-file-path", "model-runtime-info-output-file"), Refused(_PROTO)),
    "export-model-runtime-info": Refused(_PROTO),
    **dict.fromkeys(
        (
            "release-dynamic-tensors", "optimize-memory-for-large-tensors", "enable-builtin-cast-constant-cache",
            "use-caching",
        ),
        Refused(_CPU),
    ),
    "disable-delegate-clustering": Refused("partitions are those that an application gets"),
    "min-nodes-per-partition": Refused("use --max-partitions: the largest parts are taken first"),
    "use-xnnpack": Refused("LiteRT's CPU kernels are timed as LiteRT chooses them, with XNNPACK", ("true", "1")),
    "xnnpack-force-fp16": Refused("LiteRT's CPU kernels are timed as LiteRT chooses them"),
    "xnnpack-weight-cache-file-path": Refused("LiteRT's CPU kernels are timed as LiteRT chooses them"),
    **dict.fromkeys(
        (
            "use-nnapi", "nnapi-execution-preference", "nnapi-execution-priority", "nnapi-accelerator-name",
            "nnapi-allow-fp16", "nnapi-allow-dynamic-dimensions", "nnapi-use-burst-mode", "use-hexagon",
            "hexagon-profiling", "hexagon-lib-path", "use-coreml", "coreml-version", "external-delegate-path",
            "external-delegate-options", "stable-delegate-settings-file", "stable-delegate-loader-settings",
        ),
        Refused(_PHONE),
    ),
    "disable-nnapi-cpu": Refused(_PHONE, ("true", "1", "false", "0")),
    "gpu-invoke-loop-times": Refused("use --runs: each frame is timed", ("1",)),
    "perf-options-list": Refused("use --backend gl,cl,cuda,cpu and --precision f32,f16: all are timed in turn"),
    "option-benchmark-run-delay": Refused("rows follow each other without a pause", ("-1", "-1.0", "0")),
    "random-shuffle-benchmark-runs": Refused("rows come in the order of the command line"),
    **dict.fromkeys(("benchmark-name", "output-prefix"), Refused(_NO_LOG)),
    **dict.fromkeys(
        (
            "report-peak-memory-footprint", "memory-footprint-check-interval-ms", "max-profiling-buffer-entries",
            "allow-dynamic-profiling-buffer-increase", "tensor-name-display-length", "tensor-type-display-length",
            "alloc-type-display-length",
        ),
        Refused(_ALWAYS, None),
    ),
}  # fmt: skip
"""Flags by name. Those at the end change nothing here: the system keeps the peak of memory, all events of a profile are
kept, and no name is cut.
"""


def refusing(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command hidden options for the names of REFUSED, which are checked and not passed on.

    With ``verbose`` the other options' values are printed, as benchmark_model's log does.
    """
    names = {name.replace("-", "_"): name for name in REFUSED}
    hidden = [
        inspect.Parameter(
            word, inspect.Parameter.KEYWORD_ONLY, default=None,
            annotation=Annotated[str | None, typer.Option(f"--{name}", hidden=True)],
        )
        for word, name in names.items()
    ]  # fmt: skip

    @functools.wraps(function)
    def command(*positional: Any, **given: Any) -> None:
        for word, name in names.items():
            value, refused = given.pop(word, None), REFUSED[name]
            if value is not None and refused.values is not None and value not in refused.values:
                raise typer.BadParameter(f"'{value}' is refused: {refused.why}", param_hint=f"--{name}")
        for word, value in given.items() if given.get("verbose") else ():
            typer.echo(f"{word}: [{value}]", err=True)
        function(*positional, **given)

    set_parameters(command, [*inspect.signature(function).parameters.values(), *hidden])
    return command
