"""The machine: files, folders, memory. Nothing here knows about the web.

In: paths and octets. Out: private folders, files replaced as a whole, caches of bounded size. Open first: ``files``.
"""
