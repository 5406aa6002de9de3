"""tests/kernels/test_attention.py, on the GPU."""

from tests.kernels.test_attention import *  # noqa: F403
