"""The commands for who publishes lists: hide what they block, sign them, serve them.

In: arguments. Out: lists, keys and signatures; a server. Open first: ``hide_command``.
"""
