"""The experiments of the paper: what is measured, the claims that are judged by it, and the page that shows it."""
