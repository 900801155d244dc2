"""``python -m hushlist``: the same as ``hushlist``."""

from hushlist.cli import run

if __name__ == "__main__":
    run()
