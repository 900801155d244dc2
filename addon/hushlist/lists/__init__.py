"""Lists: a source's text becomes rules that know where they stand.

``source`` reads octets into lines and collects what is wrong with them, ``document`` reads YAML into nodes with lines,
and each format has its reader: ``yaml_rules`` and ``hashed_uris`` for our own, the others, on top of ``foreign``, for
those of other people. ``formats`` names them.
"""
