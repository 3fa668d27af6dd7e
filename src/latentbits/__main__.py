"""``python -m latentbits`` is ``latentbits``: the entry point, which knows of signals before anything is imported."""

from latentbits.core.interrupts import ending

__all__ = ["main"]


def main() -> None:
    """Run the tool with the arguments of the process."""
    with ending():
        from latentbits.cli.main import main as run

        run()


if __name__ == "__main__":
    main()
