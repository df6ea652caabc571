"""The samplers that come with gptrepl, one family a file. None of them imports torch to be known."""
