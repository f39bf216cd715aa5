"""Damages models and looks for crashes: ``python scripts/fuzz_models.py --seconds 600 MODEL.tflite ...``. With
``--windows`` short chains of operators of real models are damaged too (windows.py).

Each damaged file is read, claimed and, if it is accepted, loaded and allocated by LiteRT, in a separate process with
bounded time and memory. Files that cause a signal, a hang or any exception except ModelError (and LiteRT's own
RuntimeError) are kept in ``--keep``, and the exit status is 1. POSIX only.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from windows import windows

MEMORY = 8 << 30
SECONDS = 20
"""Limit for one damaged file."""

WORDS = (0, 1, 2, 4, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
STEPS = (-1000, -8, -4, -2, -1, 1, 2, 4, 8, 1000)


def structure(content: bytes) -> list[int]:
    """The positions of all bytes outside constants: changing weights breaks nothing."""
    outside = np.ones(len(content), np.bool_)
    start = np.frombuffer(content, np.uint8).ctypes.data
    for subgraph in read_model(content).subgraphs:
        for tensor in subgraph.tensors:
            if tensor.constant is not None and tensor.constant.nbytes > 64:
                at = tensor.constant.ctypes.data - start
                if 0 <= at < len(content):  # sparse constants are arrays of their own
                    outside[at : at + tensor.constant.nbytes] = False
    return np.flatnonzero(outside).tolist()


def damaged(content: bytes, positions: list[int], generator: random.Random) -> bytes:
    """The file with one to four bits, bytes or words of its structure changed, or cut off."""
    changed = bytearray(content)
    for _ in range(generator.choice((1, 1, 1, 2, 4))):
        position = generator.choice(positions)
        word = min(position & ~3, len(content) - 4)
        kind = generator.randrange(12)
        if kind == 0:
            changed[position] ^= 1 << generator.randrange(8)
        elif kind == 1:
            changed[position] = generator.randrange(256)
        elif kind <= 5:
            struct.pack_into("<I", changed, word, generator.choice(WORDS))
        elif kind <= 8:
            (value,) = struct.unpack_from("<I", changed, word)
            struct.pack_into("<I", changed, word, (value + generator.choice(STEPS)) & 0xFFFFFFFF)
        elif kind <= 10:
            other = min(generator.choice(positions) & ~3, len(content) - 4)
            changed[word : word + 4] = content[other : other + 4]
        else:
            return bytes(changed[:position])
    return bytes(changed)


def try_model(content: bytes) -> str:
    """The outcome for a file: "refused", or "accepted" and what LiteRT says. Other exceptions get out."""
    try:
        model = read_model(content)
    except fb.ModelError:
        return "refused"
    for subgraph in model.subgraphs:
        claim(subgraph, lambda: NullDevice().traits.target, subgraphs=model.subgraphs)
    try:
        interpreter = fb.Interpreter(model_content=content, num_threads=1)
    except fb.ModelError:
        return "accepted, refused by LiteRT"
    try:
        interpreter.allocate_tensors()
    except RuntimeError:
        return "accepted, loaded, not allocated"
    return "accepted, allocated"


def apart(action: Callable[[], str]) -> str:
    """The action's result, from a separate process; or the signal or exception that ended it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(SECONDS)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            text = action()
        except BaseException as error:
            text = f"FAULT {type(error).__name__}: {error}"
        os.write(writer, text.encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return f"FAULT {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else text


def main() -> int:
    parser = argparse.ArgumentParser(description="Damage models and look for crashes.")
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--windows", type=int, default=0, help="windows to cut out of each model of FRAMEBIND_MODELS")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("faults"), help="a folder for the files that are at fault")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    named = [(path.stem, path.read_bytes()) for path in arguments.models]
    named += [("window", window) for window in (windows(arguments.windows) if arguments.windows else [])]
    models = [(name, content, structure(content)) for name, content in named if content]
    if not models:
        parser.error("name a model, or give --windows")
    counts: Counter[str] = Counter()
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        name, content, positions = generator.choice(models)
        changed = damaged(content, positions, generator)
        result = apart(lambda content=changed: try_model(content))
        counts[result[:100]] += 1
        if result.startswith("FAULT"):
            arguments.keep.mkdir(parents=True, exist_ok=True)
            path = arguments.keep / f"{name}-{hashlib.sha256(changed).hexdigest()[:8]}.tflite"
            path.write_bytes(changed)
            print(f"{path}: {result}", flush=True)
    for result, count in counts.most_common():
        print(f"{count:8d} {result}")
    return int(any(result.startswith("FAULT") for result in counts))


if __name__ == "__main__":
    sys.exit(main())
