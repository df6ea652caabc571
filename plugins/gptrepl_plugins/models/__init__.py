"""The models that come with gptrepl: one engine, and a loader for each kind of file."""
