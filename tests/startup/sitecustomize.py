"""What each Python that tests start runs first: none has a lower priority, or it would wait for all other tests."""

import os

os.nice = lambda _: 0
