"""Inverted bottlenecks: convolutions of MobileNets whose parts are computed in one step."""
