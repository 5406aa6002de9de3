"""tests/kernels/test_elementwise.py, on the GPU."""

from tests.kernels.test_elementwise import *  # noqa: F403
