"""Algorithms to read and to count, not to serve with: small tensors, every read and write of slow memory counted.

memory: the two levels. softmax: three ways and the state that merges. attention: standard, and flash in both loop orders.
pipeline: when copy engine, tensor cores and exponential units of one SM work, under four schedules.
"""
