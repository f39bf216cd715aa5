"""How the model in ``demos/assets`` was made. Not installed with the package: README.md here says how to run it."""
