"""Which model answers a request, and the one path a request takes.

Importable and useful on its own: it knows nothing of terminals, of native
runtimes or of where conversations are kept.
"""
