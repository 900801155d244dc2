"""The fault list: what can fail is made to fail in a real mitmdump; the origin's log says what requests became."""
