"""Kernels to learn from: the smallest that show one idea each. The engine uses none of them.

vector_add: programs, offsets, masks. strided_copy: what a memory transaction carries. read_again: levels of memory.
softmax: passes over memory in three stages.
tiled_matmul: tiles and pipelining depth. transpose, banks: shared memory and its banks.
"""
