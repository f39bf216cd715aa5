"""Code that tests share: models, recorders of drivers, screens, tiers. Nothing here is a test."""
