"""A discrete-event simulator of LLM serving: which batching, which scheduler, how many GPUs.

Plain synchronous code over values: nothing here reads a clock, opens a socket or
knows a terminal. ``deployment.build`` joins the parts; docs/simulator.md says what each owns.
"""
