"""Lists looked at from outside: what is wrong with them, what they do to browsing, how well hashes hide them."""
