"""The names of ``framebind.certify.cases.operator_models``, for tests that still import them from here."""

from framebind.certify.cases.operator_models import *  # noqa: F403
