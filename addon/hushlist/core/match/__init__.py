"""Matching: the rules that fit a request.

In: rules, and a request's canonical URLs. Out: an index file, and the ``Match`` of each rule that fits. Open first:
``rule`` for the parts of a rule, ``index`` for the look-up.
"""
