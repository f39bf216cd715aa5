"""The player that all demos and the command ``camera`` share: run, keys, figures, network and options."""
