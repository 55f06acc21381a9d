"""HTML and plots for notebooks."""
