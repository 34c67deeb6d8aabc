"""Set-up of a checkout: standard library only, for Python 3.9 and newer."""
