"""How fast a model will run on a machine, and whether it fits.

Importable and useful on its own: it knows nothing of chats or engines.
"""
