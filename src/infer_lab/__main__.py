"""`python -m infer_lab` is `infer-lab`."""

from infer_lab.cli import main

main()
