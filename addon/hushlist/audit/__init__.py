"""Lists tested: against recorded browsing, against each other, and each for itself."""
