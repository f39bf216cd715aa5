"""The player that all demos share: run, keys, figures, network and options."""
