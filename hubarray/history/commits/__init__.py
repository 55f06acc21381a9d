"""Making commits: operations, the commit loop and retries."""
