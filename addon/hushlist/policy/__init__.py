"""The policy: its file, its layers, and the decision that they come to."""
