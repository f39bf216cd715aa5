"""Options of the delegate on command lines: one declaration for benchmark, diff, culprit, demos and other commands.
The names and values of TensorFlow Lite's tools are accepted, too: see TFLITE_NAMES.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_type_hints

import typer
from typer.core import TyperCommand

import framebind as fb

from ...video.apis import APIS, BY_NAME, GL, api_of
from ...video.feedback import AUTO as AUTO_FEEDBACK
from ...video.feedback import HELP as FEEDBACK_HELP
from ...video.further_inputs import HELP as INPUT_HELP
from ...video.model_options import MOST_THINGS, ModelOptions

Option = functools.partial(typer.Option, rich_help_panel="Delegate")
AUTO = "auto"
BACKEND_NAMES = (*BY_NAME, AUTO)
SHORT_NAMES = ", ".join(api.short for api in APIS)
PRECISIONS = {"f32": "f32", "f16": "f16", "false": "f32", "true": "f16"}
"""Precisions by framebind's names, and by the values of TensorFlow Lite's gpu_precision_loss_allowed."""
PREFERENCES = {preference.name.lower().replace("_", "-"): preference for preference in fb.InferencePreference} | {
    "false": fb.InferencePreference.FAST_SINGLE_ANSWER,
    "true": fb.InferencePreference.SUSTAINED_SPEED,
}
"""Preferences by name, and by the values of TensorFlow Lite's gpu_inference_for_sustained_speed."""


TFLITE_NAMES = {
    "enable-op-profiling": "profile",
    "delegate-serialize-dir": "serialization-dir",
    "delegate-serialize-token": "model-token",
    "first-delegate-node-index": "first-node",
    "gpu-backend": "backend",
    "gpu-experimental-enable-quant": "quantization",
    "gpu-inference-for-sustained-speed": "preference",
    "gpu-precision-loss-allowed": "precision",
    "gpu-wait-type": "wait-type",
    "input-layer-value-files": "input-file",
    "last-delegate-node-index": "last-node",
    "max-delegated-partitions": "max-partitions",
    "num-runs": "runs",
    "num-threads": "threads",
    "signature-to-run-for": "signature",
    "cache": "serialization-dir",
}
"""Names of options here, by their names in TensorFlow Lite's tools, and a short name of the cache's folder."""


CHART_SUFFIXES = (".html", ".svg", ".png")
CHART_PACKAGES = {"altair": "altair", "vl_convert": "vl-convert-python"}
"""The distributions of the extra `plot`, by the name of their module."""
BOOLEAN = re.compile(r"(--[\w-]+)=(true|false|1|0)")
"""The form of a flag that is on or off in TensorFlow Lite's tools."""


Labels = Annotated[
    Path | None,
    typer.Option(help="The names of the model's classes, one per line; by default those in the model's own file."),
]
Mean = Annotated[
    str,
    typer.Option(
        help="Mean of the picture's values, 0 to 1, that the model takes as 0; one, or three with commas between; by "
        "default what the model's file says, or what models of the task usually take."
    ),
]
Std = Annotated[str, typer.Option(help="Their standard deviation, likewise.")]


def canonical(name: str) -> str:
    """The name of an option here; underscores count as hyphens. typer calls this for each word that may be a name."""
    name = name.replace("_", "-")
    return TFLITE_NAMES.get(name, name)


class ToolCommand(TyperCommand):
    """A command whose flags may also be written with a value, as those of LiteRT's tools: ``--dry_run=true``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line."""
        on = {canonical(name.lstrip("-")): param for param in self.params for name in param.opts}
        words: list[str] = []
        for word in args:
            match = BOOLEAN.fullmatch(word)
            param: Any = match and on.get(canonical(match[1].lstrip("-")))
            if match is None or not getattr(param, "is_flag", False):
                words.append(word)
            elif match[2] in ("true", "1"):
                words.append(param.opts[0])
            else:
                words += param.secondary_opts[:1]  # a flag without a name for "off" is off
        return super().parse_args(ctx, words)


def backend_option(
    help: str = f"{SHORT_NAMES} or auto.", *, also: str | None = None, several: bool = False, show_default: Any = True
) -> Any:
    """The option --backend of every command: a name of an API or "auto", or the name ``also``.

    ``several`` takes names with commas between. Any other name is an error of the command line.
    """
    known = BACKEND_NAMES if also is None else (*BACKEND_NAMES, also)

    def check(text: str) -> str:
        for name in split_names(text) if several else [text]:
            if name not in known:
                raise typer.BadParameter(f"'{name}' is none of {', '.join(known)}", param_hint="--backend")
        return text

    return Option("--backend", callback=check, help=help, show_default=show_default)


def split_names(text: str) -> list[str]:
    """The names in a text, with commas between, each once; none in an empty text."""
    return list(dict.fromkeys(name.strip() for name in text.split(","))) if text else []


@dataclass(frozen=True, kw_only=True)
class DelegateFlags:
    """The options of all programs that run models on the GPU, except the API and the precision."""

    device: Annotated[
        str,
        Option(help=f"The device: {'; '.join(api.device_help for api in reversed(APIS))}."),
    ] = ""
    max_partitions: Annotated[
        int | None,
        Option(
            min=0,
            help="Run only this many of the model's largest parts; 0, the default, runs all.",
        ),
    ] = None
    first_delegate_node_index: Annotated[
        int, Option("--first-node", min=0, help="The first operator that may run on the GPU.")
    ] = 0
    last_delegate_node_index: Annotated[
        int | None, Option("--last-node", min=0, help="The last operator that may run on the GPU.")
    ] = None
    quantization: Annotated[
        Literal["true", "false"],
        Option(
            help="Run operators of quantized tensors, too, or leave them to the CPU.",
        ),
    ] = "true"
    wait_type: Annotated[
        Literal["do-not-wait", "passive", "active", "aggressive"],
        Option(help="What invoke does until the GPU is done."),
    ] = "do-not-wait"
    preference: Annotated[
        Literal["fast-single-answer", "sustained-speed", "balanced", "false", "true"],
        Option(
            help="sustained-speed (true) measures at the first frame what is fastest.",
        ),
    ] = "fast-single-answer"
    serialization_dir: Annotated[
        Path | None,
        Option(
            help="The folder that keeps compiled programs and packed weights for the next start.",
        ),
    ] = None
    model_token: Annotated[
        str | None,
        Option(
            help="The model's name in that folder; without it, its fingerprint.",
        ),
    ] = None

    def options_for(self, model: Path, backend: str, precision: str) -> fb.GpuDelegateOptions:
        """The delegate's options for a model file on one backend ("auto" and "null" as well), with one precision."""
        return replace(self.model_options_for(precision).options(model), backend=backend)

    def model_options_for(self, precision: str, backend: str = AUTO) -> ModelOptions:
        """The options as plain values, as the library takes them, with one precision."""
        delegate = fb.GpuDelegateOptions(
            is_precision_loss_allowed=PRECISIONS[precision] == "f16",
            max_delegated_partitions=self.max_partitions or None,
            enable_quantization=self.quantization == "true",
            inference_preference=PREFERENCES[self.preference],
            first_delegate_node_index=self.first_delegate_node_index,
            last_delegate_node_index=self.last_delegate_node_index,
            wait_type=fb.WaitType[self.wait_type.upper().replace("-", "_")],
        )
        return ModelOptions(backend, self.device, delegate, self.serialization_dir, self.model_token)


@dataclass(frozen=True, kw_only=True)
class GpuFlags(DelegateFlags):
    """The options of programs that run models on one API, with one precision."""

    backend: Annotated[str, backend_option()] = GL.short
    precision: Annotated[
        Literal["f32", "f16", "false", "true"],
        Option(
            help="Storage of weights and of some intermediate tensors; f16 (true) is half as large.",
        ),
    ] = "f32"
    f16: Annotated[bool, Option("--f16", help="The same as --precision f16.")] = False

    def model_options(self) -> ModelOptions:
        """The options as plain values, as the library takes them."""
        return self.model_options_for("f16" if self.f16 else self.precision, self.backend)

    def options(self, model: Path) -> fb.GpuDelegateOptions:
        """The delegate's options for a model file."""
        return self.model_options().options(model)

    @property
    def api(self) -> fb.Backend:
        """The chosen API: see ``api_of``."""
        return api_of(self.backend)


@dataclass(frozen=True, kw_only=True)
class FrameFlags(GpuFlags):
    """The options of programs that run a model on one frame after the other."""

    feedback: Annotated[str, Option(metavar="OUTPUT:INPUT,...", help=FEEDBACK_HELP)] = AUTO_FEEDBACK
    input: Annotated[str, Option(metavar="NAME=VALUE,...", help=INPUT_HELP)] = ""

    def model_options(self) -> ModelOptions:
        return replace(super().model_options(), feedback=self.feedback, input=self.input)


@dataclass(frozen=True, kw_only=True)
class VideoFlags(FrameFlags):
    """The options of programs for videos. By default the work is on CUDA if that is there and does it alone."""

    backend: Annotated[
        str, backend_option(f"{SHORT_NAMES}, or auto: cuda if it is there and the work needs no OpenGL, or gl.")
    ] = AUTO


def with_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command for typer: a parameter of ``function`` that is a dataclass becomes its fields, each an option."""
    parameters: list[inspect.Parameter] = []
    flags: dict[str, type[Any]] = {}
    # Not get_type_hints: Python 3.10 hides the Annotated of a parameter with the default None in an Optional.
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            flags[name] = cast(type[Any], parameter.annotation)
            parameters += field_parameters(flags[name])
        else:
            parameters.append(parameter)

    @functools.wraps(function)
    def command(*positional: Any, **given: Any) -> None:
        for name, kind in flags.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind) if f.name in given})
        function(*positional, **given)

    set_parameters(command, parameters)
    return command


def field_parameters(kind: type[Any], defaults: Mapping[str, Any] | None = None) -> list[inspect.Parameter]:
    """The fields of a dataclass as keyword parameters; ``defaults`` replace those of the fields."""
    hints = get_type_hints(kind, include_extras=True)
    found: list[inspect.Parameter] = []
    for f in fields(kind):
        own = inspect.Parameter.empty if f.default is MISSING else f.default
        if f.default_factory is not MISSING:
            own = f.default_factory()
        default = (defaults or {}).get(f.name, own)
        found.append(
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, annotation=hints[f.name], default=default)
        )
    return found


def set_parameters(command: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    """Set the parameters of a command that typer sees, positional ones first."""
    ordered = sorted(parameters, key=lambda parameter: parameter.kind)
    command.__signature__ = inspect.Signature(ordered)  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}


def _check_chart(path: Path | None) -> Path | None:
    """The path of a chart that an option names. Raises typer.BadParameter if no chart can be written there."""
    if path is None:
        return None
    if path.suffix not in CHART_SUFFIXES:
        raise typer.BadParameter(f"'{path}' is no {', '.join(CHART_SUFFIXES[:-1])} or {CHART_SUFFIXES[-1]} file")
    missing = [package for module, package in CHART_PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise typer.BadParameter(f"charts need packages that are not here: pip install {' '.join(missing)}")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder '{path.parent}'")
    return path


def chart_option(help: str) -> Callable[..., object]:
    """An option whose value is the file of a chart; it is checked before the command begins."""
    return typer.Option(metavar="FILE", callback=_check_chart, help=f"{help}: a .html, .svg or .png file.")


Depth = Annotated[
    Literal["", "inverse", "metres"],
    Option(
        help="For depth: whether the model's values are inverse depth, the largest the nearest, or metres; by default "
        "what the names of the file and its output say, and else inverse."
    ),
]


Most = Annotated[
    int | None,
    Option(
        min=1, max=MOST_THINGS,
        help="For face, hands, gestures and pose: how many are looked for, by default one, of hands two. Each costs as "
        "much as the first one, also if it is not there.",
    ),
]  # fmt: skip


def normalization(mean: str, std: str) -> dict[str, Any]:
    """The given ones of ``Mean`` and ``Std``, as options of tasks. Raises BadParameter for what is no number."""
    return {name: _numbers(text, name) for name, text in (("mean", mean), ("std", std)) if text}


def _numbers(text: str, name: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"'{text}' is no number, and no three with commas", param_hint=f"--{name}") from error
