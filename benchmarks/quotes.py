"""Sentences of README and docs that quote measurements; report.py writes their figures: no page has older ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Medians = Mapping[tuple[str, str, str], float]
"""Milliseconds of frames, by model, engine and number of frames at once: ("pose_landmark_lite", "CUDA f16", "1")."""
MACHINE = "NVIDIA H200"
"""The machine whose figures are quoted."""
SELFIE, FACE = "selfie_segmentation", "face_detection_front"
OPENCL, OPENGL, LITERT = "OpenCL f16", "OpenGL f16", "LiteRT's GPU accelerator"


@dataclass(frozen=True)
class Quote:
    """Words of a page with ``{}`` for each figure; ``figures`` computes them from medians by kind of measurement."""

    page: str
    words: str
    figures: Callable[[Mapping[str, Medians]], Sequence[str]]


def span(values: Sequence[float], form: str) -> list[str]:
    """The least and the greatest value."""
    return [f"{min(values):{form}}", f"{max(values):{form}}"]


def ratios(medians: Medians, slower: str, faster: str, count: str = "1") -> list[float]:
    """The times of an engine as multiples of another one's, for each model that both have."""
    found = {model: time for (model, on, many), time in medians.items() if (on, many) == (slower, count)}
    others = {model: time for (model, on, many), time in medians.items() if (on, many) == (faster, count)}
    return [found[model] / others[model] for model in found if model in others]


def _read_row(model: str) -> Callable[[Mapping[str, Medians]], list[str]]:
    return lambda kinds: [f"{kinds['read'][model, on, '1']:.3f}" for on in (OPENCL, OPENGL, LITERT)]


def _bound_on_cuda(kinds: Mapping[str, Medians]) -> list[str]:
    return span([time for (_, on, _), time in kinds["frames"].items() if on == "CUDA f16"], ".2f")


def _bound_on_opencl(kinds: Mapping[str, Medians]) -> list[str]:
    return [f"{kinds['frames'][model, OPENCL, '1']:.3f}" for model in (SELFIE, FACE)]


def _of_32(kinds: Mapping[str, Medians]) -> list[str]:
    times = kinds["batch"]
    shares = [100 * times[model, on, "32"] / time for (model, on, many), time in times.items()
              if (on, many) == ("CUDA f16", "1") and (model, on, "32") in times]  # fmt: skip
    return span(shares, ".0f")


def _torch(engine: str) -> Callable[[Mapping[str, Medians]], list[str]]:
    return lambda kinds: span(
        [ratio for kind in ("peers", "batch-peers") for ratio in ratios(kinds.get(kind, {}), engine, "CUDA f16")], ".1f"
    )


QUOTES = (
    Quote("README.md", "six well-known models take {} to {} ms per bound frame", _bound_on_cuda),
    Quote(
        "README.md", "they run {} to {} times as fast as on LiteRT's own GPU accelerator",
        lambda kinds: span(ratios(kinds["read"], LITERT, OPENCL), ".1f"),
    ),
    *(Quote("docs/from-litert.md", f"| {model} | {{}} | {{}} | {{}} |", _read_row(model)) for model in (SELFIE, FACE)),
    Quote("docs/from-litert.md", "On OpenCL the same two models take {} and {} ms", _bound_on_opencl),
    Quote("docs/tensor-batches.md", "a frame in a batch of 32 takes {} to {}% of the time of a single frame", _of_32),
    Quote("docs/cuda.md", "takes {} to {} times as long with `torch.compile`", _torch("torch.compile f16")),
    Quote("docs/cuda.md", "and {} to {} times as long with its own kernels", _torch("torch CUDA graph f16")),
)  # fmt: skip


def quoted(page: str, text: str, kinds: Mapping[str, Medians]) -> str:
    """The text of a page with the figures of these medians.

    Raises ValueError if it lacks the words of a quote, or if they have no figures for it.
    """
    for quote in QUOTES:
        if quote.page == page:
            parts = [re.escape(part).replace(r"\ ", r"\s+") for part in quote.words.split("{}")]
            found = re.findall("([0-9.]+)".join(f"({part})" for part in parts), text)
            if len(found) != 1:
                raise ValueError(f"{page} has these words {len(found)} times: {quote.words}")
            try:
                figures = [*quote.figures(kinds), ""]
            except (KeyError, ValueError) as error:
                raise ValueError(f"no measurement on {MACHINE} has the figures of {page}: {quote.words}") from error
            new = "".join(word + figure for word, figure in zip(found[0][::2], figures, strict=True))
            text = text.replace("".join(found[0]), new)
    return text
