"""The SHA-256 for very many short texts: up to some 60 octets, Python's own is made faster than OpenSSL's."""

try:
    from _sha256 import sha256  # type: ignore[import-not-found]
except ImportError:  # Python is later than 3.11, or built without it
    from hashlib import sha256

__all__ = ["sha256"]
