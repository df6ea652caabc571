"""The commands that come with gptrepl beside those of the session itself."""
