"""Has the filter wait for a server of Safe Browsing for as long as a test takes on a busy machine."""

from hushlist.compiling import prefix_service
from hushlist.decide import confirmations
from hushlist.proxy import runtime

prefix_service.PATIENCE = confirmations.PATIENCE = runtime.LONGEST_WAIT = 60.0
