"""Worker processes for long work: compiling, lint, diff, leak and audit all run on ``Workers``.

In: a function and its tasks. Out: by ``map`` and ``apply`` the results, in the tasks' order; by ``fold`` one result for
each worker; in bounded memory. Open first: ``worker_processes``.
"""
