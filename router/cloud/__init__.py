"""The way to a model on other machines: formats, client, and what is known of providers.

Importing it opens no connection and reads no key. Only :mod:`router.cloud.client` speaks
HTTP; every other module takes values and returns values.
"""
