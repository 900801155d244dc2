"""Fuzzing by coverage: ``python tests/fuzz/fuzz.py TARGET -max_total_time=60``; a word of ``--list``, or ``all``.

The targets are the table of ``tests/unit/parsers/``; a parser has to give a result or one of its own errors, and to
do so in time. What atheris finds is written to a file ``crash-...`` or ``timeout-...``, whose octets belong into the
tests of the parser's module; given as an argument, such a file is tried again. Any option of libFuzzer may follow.
Inputs that reach new code are kept in the system's folder for temporary files, for the next run to go on from.

    python -m venv .fuzz && .fuzz/bin/pip install -e '.[fuzz]'
    .fuzz/bin/python tests/fuzz/fuzz.py 'list rpz' -max_total_time=60
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "addon")]
warnings.simplefilter("ignore")

with atheris.instrument_imports(include=["hushlist"]):
    from unit.parsers import PARSERS

#: octets of an input, and seconds that one may take; both can be given otherwise
_DEFAULTS = {"-max_len": "8192", "-timeout": "10", "-rss_limit_mb": "2048", "-print_final_stats": "1"}


def fuzz(name: str, options: list[str]) -> None:
    """Fuzz one parser; ends the process, with 0 where nothing was found."""
    parser = PARSERS[name]

    def one_input(octets: bytes) -> None:
        try:
            parser.read(octets)
        except parser.errors:
            return

    folder = Path(tempfile.gettempdir()) / "hushlist-fuzz" / name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    for number, sample in enumerate(parser.samples()):
        (folder / f"sample-{number}").write_bytes(sample)
    words = folder.with_suffix(".words")
    # libFuzzer takes no file without a word
    words.write_text("".join(f'"{_escaped(unit)}"\n' for unit in parser.units or (b"\0",)))
    chosen = {option.partition("=")[0] for option in options}
    defaults = [f"{option}={value}" for option, value in _DEFAULTS.items() if option not in chosen]
    files = [option for option in options if not option.startswith("-")]
    atheris.Setup([sys.argv[0], *defaults, f"-dict={words}", *options, *([] if files else [str(folder)])], one_input)
    atheris.Fuzz()


def _escaped(unit: bytes) -> str:
    return "".join(f"\\x{octet:02X}" for octet in unit)


def main(arguments: list[str]) -> int:
    """One target, all of them one after the other, or their names."""
    if not arguments or arguments[0] not in {*PARSERS, "all"}:
        print(*PARSERS, sep="\n")
        return 0 if arguments == ["--list"] else 2
    if arguments[0] != "all":
        fuzz(arguments[0], arguments[1:])
        return 0
    failed = [name for name in PARSERS if subprocess.run([sys.executable, __file__, name, *arguments[1:]]).returncode]
    print("something was found by:" if failed else "nothing was found", *failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
