"""What tests of the addon share."""

from unit.proxied import *  # noqa: F403 - its fixtures
