"""Matching: expressions of a canonical URL, their hashes, rules, and the index that finds rules by them."""
