"""A process that has a model ready, and times it whenever a line comes: a part of benchmarks/compare_trees.py.

    python benchmarks/ready.py TREE MODEL BACKEND

It uses benchmarks/batch.py of the tree, whose package must be the one that is imported. It prints lines of JSON: the
device and its driver; then for each line the model, the API, and the median ms of frames and streams.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

WARM_UP_SECONDS, RUNS = 0.3, 100


def main(tree: str, model: str, backend: str) -> None:
    sys.path.insert(0, str(Path(tree, "benchmarks")))
    import batch as found  # that of the tree, whose types are its own

    batch: Any = found
    api, schedule = batch.BY_NAME[backend], batch.Schedule(20, RUNS, 0.5, warm_up_seconds=WARM_UP_SECONDS)
    way = batch.Way("f16", "auto", "one", None)
    with api.new_context(), batch.compiled(Path(model), api, 1, way) as measure:
        row = measure(batch.Schedule(1, 1, 0.1, warm_up_seconds=0.0))
        print(json.dumps([row.device, row.driver]), flush=True)
        for _ in sys.stdin:
            row = measure(schedule)
            times = {figure: statistics.median(row.samples[figure]) for figure in ("frame", "stream")}
            print(json.dumps([row.model, row.on, times]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
