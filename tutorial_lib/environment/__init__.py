"""Makes the environment: standard library only, because nothing is installed yet."""
