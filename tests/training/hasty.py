"""The command line, but that it saves each step of a training."""

from toolbank.commands.cli import main
from toolbank.training import callbacks as saving

if __name__ == "__main__":
    saving._PAUSE_S, saving._SHARE = 0.0, float("inf")
    main()
