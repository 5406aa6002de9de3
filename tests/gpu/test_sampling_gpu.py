"""tests/kernels/test_sampling.py, on the GPU."""

from tests.kernels.test_sampling import *  # noqa: F403
