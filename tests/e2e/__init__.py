"""End-to-end tests: a real mitmdump, real clients, a real origin; all of it on loopback."""
