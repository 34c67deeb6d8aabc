"""Subcommands of localchat, one module each."""
