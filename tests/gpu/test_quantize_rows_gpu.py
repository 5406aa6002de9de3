"""tests/kernels/test_quantize_rows.py, on the GPU."""

from tests.kernels.test_quantize_rows import *  # noqa: F403
