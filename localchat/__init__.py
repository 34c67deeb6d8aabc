"""A private chat in the terminal, run by a 4-bit model on this machine."""

__version__ = "0.1.0"
