"""The workbench: experiment specs, runs, their archive, the command line and the screen."""

__version__ = "0.1.0"
