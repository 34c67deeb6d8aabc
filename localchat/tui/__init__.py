"""The terminal app: screens and widgets over one Program.

Imports nothing: ``localchat --help`` must not pay for Textual.
"""
