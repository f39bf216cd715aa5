"""How the model in ``demos/assets`` was taught. Run from a checkout: README.md here says how, and has the figures."""
