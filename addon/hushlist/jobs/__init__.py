"""One engine for long work: chunks of lists, worker processes, sorted runs, and progress.

In: a function and its tasks. Out: the results, in the tasks' order, in bounded memory. Open first:
``worker_processes``; compiling, lint, diff, leak and audit all run on its ``Workers``.
"""
