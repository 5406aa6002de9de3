"""A discrete-event twin of the engine: the same scheduler and block pool, with a cost model where the GPU would be.

Why: questions of serving (how much load, which policy, how many replicas, what does a burst do to the tail) are about queues and memory,
not about logits. Driving the real scheduler with a clock that jumps answers them in seconds for hours of traffic, on a laptop or in a
browser; and since it is the same code, what is seen here is what the engine does.
"""
