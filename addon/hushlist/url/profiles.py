"""All profiles by name."""

from __future__ import annotations

from hushlist.url.compare import LADDER
from hushlist.url.hashed import HASHED_N, HASHED_P
from hushlist.url.profile import Profile
from hushlist.url.safebrowsing import SAFEBROWSING

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (SAFEBROWSING, *LADDER, HASHED_N, HASHED_P)}
