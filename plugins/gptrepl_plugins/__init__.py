"""The plugins that come with gptrepl; they use nothing of it but `gptrepl.api`."""
