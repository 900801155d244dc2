"""Long work in several processes: chunks of lists, worker processes, sorted runs, and progress.

In: a function and its tasks. Out: the results, in the tasks' order, in bounded memory. Open first:
``worker_processes``.
"""
