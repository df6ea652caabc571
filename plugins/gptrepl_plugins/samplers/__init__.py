"""The samplers that come with gptrepl, one family a file. Knowing them needs no torch."""
