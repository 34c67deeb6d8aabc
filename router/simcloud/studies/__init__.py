"""Studies: the same requests under several deployments, as tables beside published figures.

Every module here with ``NAME``, ``SUMMARY`` and ``run`` is a study and is found by listing this
package (``registry``). Nothing here prints or draws.
"""
