"""What all tests share: Hypothesis runs the same examples every time, and as many as a test run affords.

`HYPOTHESIS_PROFILE=thorough` looks longer and at new examples.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "sash",
    derandomize=True,
    deadline=None,
    max_examples=60,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", parent=settings.get_profile("sash"), derandomize=False, max_examples=1_000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sash"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A file's tests run in one process, so kernels are compiled and its fixtures are made once."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(config.rootpath))))
