"""Whole videos, folders of them and live streams through a model. This library imports public names only."""
