"""Request-level dynamic batching, as inference servers such as Triton do it.

A queue, a rule that says when a batch is sent, instances that run it, and a repository of
models with versions. A batch ends as a whole. Semantics after Triton's model configuration
(dynamic_batching, instance_group, version_policy).
"""
