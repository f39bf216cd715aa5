"""The similarity that moves one set of points onto another best (ProcrustesSolver)."""

from __future__ import annotations

import numpy as np

from ...basic_types import Array


def similarity(sources: Array, targets: Array, weights: Array) -> Array | None:
    """The matrix (4, 4) of rotation, scale and translation that takes ``sources`` (n, 3) nearest to ``targets`` (n, 3).

    The weighted orthogonal problem of Akca, "Generalized Procrustes analysis and its applications in photogrammetry"
    (2003), section 2.4, formulas 51 to 54, without reflections (Gower and Dijksterhuis, "Procrustes problems", 4.6).
    ``weights`` (n) are those of the squared distances. None if the points do not determine it.
    """
    total = weights.sum()
    source_middle = (weights[:, None] * sources).sum(axis=0) / total
    target_middle = (weights[:, None] * targets).sum(axis=0) / total
    centered = sources - source_middle
    design = (weights[:, None] * targets).T @ centered
    if not np.isfinite(design).all():
        return None
    left, _, right = np.linalg.svd(design)
    if np.linalg.det(left) * np.linalg.det(right) < 0:
        left[:, 2] *= -1
    rotation = left @ right
    spread = (weights[:, None] * centered * sources).sum()
    scale = ((centered @ rotation.T) * weights[:, None] * targets).sum() / spread if spread > 0 else 0
    if not scale > 1e-9:
        return None
    matrix = np.eye(4)
    matrix[:3, :3] = scale * rotation
    matrix[:3, 3] = target_middle - scale * (rotation @ source_middle)
    return matrix
