"""What runs a model on this machine, each in a child process of its own.

The parent's side is :mod:`process`; the child's is :mod:`worker`, which drives
the one generation loop (:mod:`generate`) over a :class:`runtime.Runtime`.
"""
