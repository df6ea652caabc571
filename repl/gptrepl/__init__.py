"""gptrepl: the terminal shell for sampling from GPT models."""

__version__ = "0.1.0"
