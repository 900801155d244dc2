"""What tests of the addon share."""

from support.proxied import *  # noqa: F403 - its fixtures
