"""Several proxies, called workers, on one machine by one command: ``hushlist proxy --workers N``.

In: a number, and mitmdump's options. Out: that many mitmdumps at the same ports, started again when they die, and one
after the other when a new version or certificate is to be used. What a worker knows of the others:
``proxy/service/siblings.py``. Open first: ``supervisor``.
"""

from hushlist.core.extension import Command, Extension

EXTENSION = Extension(
    "workers",
    commands=(Command(("proxy",), f"{__name__}.proxy_command", "while the filter runs"),),
)
