"""Pages made for ``hushlist visit``, of which it is known whether a list breaks them: templates x breakages x decoys.

In: nothing. Out: pages as they would be recorded, one list that stops things on all of them, and a label for each. A
third of the pages, ``Part.TEST``, has templates, breakages and decoys written in other ways than those that the limits
were set with. Open first: ``generator``.
"""
