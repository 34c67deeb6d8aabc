"""The client of any OpenAI-compatible cloud: :class:`router.cloud.client.backend.CloudBackend`.

The one part of the router that speaks HTTP. Importing this package alone does not bring httpx.
"""
