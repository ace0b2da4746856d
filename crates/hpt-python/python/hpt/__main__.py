"""``python -m hpt ARGUMENTS`` runs the command ``hpt``."""

import os
import sys

from ._hpt import Error
from .cli import path


def main() -> None:
    try:
        program = path()
    except Error as refused:
        sys.exit(f"hpt: {refused}")
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as refused:
        sys.exit(f"hpt: {program} cannot be run: {refused}")


if __name__ == "__main__":
    main()
