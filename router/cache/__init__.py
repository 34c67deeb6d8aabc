"""Answers of the cloud given before: the same question, or a true paraphrase of it, is answered at once.

It promises a bound on wrong answers among its hits, and serves no paraphrase without one.
"""
