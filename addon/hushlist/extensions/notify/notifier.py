"""Sends notices by a policy's channels: each has a thread and a bounded queue, and is tried again after a fault."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import Full, Queue
from secrets import token_hex
from threading import Event, Lock, Thread
from time import monotonic

from hushlist.core.errors import logger_of
from hushlist.core.extension import Button, Notice
from hushlist.extensions.notify.delivery import DeliveryError, deliver
from hushlist.extensions.notify.notify_channels import Channel, is_for

logger = logger_of(__name__)

#: notices that wait for one channel; those that are sent within so many seconds: a flood must not fill a phone
MOST_WAITING = 100
MOST_NOTICES, WITHIN = 30, 3600.0
#: of these, those that one client can cause: it must not use up what others need
MOST_OF_CLIENT = 10
#: seconds before each further try of one notice
PAUSES = (2.0, 10.0, 60.0, 300.0)


#: takes the notice, what one tap does at it, and what is the same for each try
Deliver = Callable[[Channel, Notice, Sequence[Button], str], None]


class Notifier:
    """Hands notices to every channel."""

    def __init__(
        self,
        channels: Iterable[Channel] = (),
        send_by: Deliver = deliver,
        *,
        pauses: tuple[float, ...] = PAUSES,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._send_by, self._pauses = send_by, pauses
        self._posts: list[_Post] = []
        self._clock, self._lock = clock, Lock()
        self.use(channels)

    def use(self, channels: Iterable[Channel]) -> None:
        """Use other channels; those that were there go on with what waits for them."""
        before, posts = [*self._posts], list[_Post]()
        for channel in channels:
            kept = next((post for post in before if post.channel == channel), None)
            if kept is not None:
                before.remove(kept)
            posts.append(kept or _Post(channel, self._send_by, self._pauses))
        self._posts = posts
        for post in before:
            post.close()

    def send(self, notice: Notice) -> None:
        """Hand a notice over; waits for nothing, and raises nothing."""
        posts = [post for post in self._posts if is_for(notice, post.channel)]
        if notice.html is None:
            with self._lock:
                now = self._clock()
                posts = [post for post in posts if post.count(notice, now)]
        for post in posts:
            post.take(notice)

    def close(self) -> None:
        """Stop; what still waits is not sent."""
        for post in self._posts:
            post.close()


class _Post:
    """One channel, with its queue and the thread that empties it."""

    def __init__(self, channel: Channel, send_by: Deliver, pauses: tuple[float, ...]) -> None:
        self.channel, self._send_by, self._pauses = channel, send_by, pauses
        self._waiting: Queue[Notice | None] = Queue(MOST_WAITING)
        self._is_over = Event()
        self._thread: Thread | None = None
        #: whether the log says that it does not work
        self._is_told = False
        #: by what they are counted: when, and who caused it; and of what too many came
        self._counted = defaultdict[str, deque[tuple[float, str]]](lambda: deque(maxlen=MOST_NOTICES))
        self._quiet = set[str]()

    def count(self, notice: Notice, now: float) -> bool:
        """Count a notice; whether it may be sent, as fewer were within the hour."""
        counted = self._counted[notice.budget]
        recent = [client for at, client in counted if now - at < WITHIN]
        of_client = recent.count(notice.client) if notice.client else 0
        if len(recent) < MOST_NOTICES and of_client < MOST_OF_CLIENT:
            counted.append((now, notice.client))
            self._quiet.discard(notice.budget)
            return True
        if notice.budget not in self._quiet:
            text = "hushlist: %s: %d notices within an hour: for a while, some are not sent"
            logger.warning(text, self.channel.name, len(recent))
        self._quiet.add(notice.budget)
        return False

    def take(self, notice: Notice) -> None:
        """Queue a notice; if too many wait, it is lost."""
        try:
            self._waiting.put_nowait(notice)
        except Full:
            self._tell("too many notices wait for it")
            return
        if self._thread is None:
            self._thread = Thread(target=self._run, name="hushlist: notify", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        with suppress(Full):  # then the thread has something to wake up for
            self._waiting.put_nowait(None)

    def _run(self) -> None:
        while not self._is_over.is_set():
            notice = self._waiting.get()
            if notice is not None:
                self._send(notice)

    def _send(self, notice: Notice) -> None:
        channel, key, buttons = self.channel, token_hex(16), self._buttons(notice)
        for pause in (0.0, *self._pauses):
            if self._is_over.wait(pause):
                return
            try:
                self._send_by(channel, notice, buttons, key)
            except DeliveryError as error:
                channel = error.rest or channel
                self._tell(str(error))
            except Exception as error:  # its text may quote a secret
                self._tell(f"{type(error).__name__}")
            else:
                if self._is_told:
                    logger.info("hushlist: notices go out again by %s", self.channel.name)
                self._is_told = False
                return

    def _buttons(self, notice: Notice) -> Sequence[Button]:
        """What one tap does; nothing if the store is away: the notice is worth more."""
        try:
            return () if notice.buttons is None else notice.buttons(self.channel.name)
        except Exception as error:
            logger.warning("hushlist: a notice goes out without its buttons: %s", error)
            return ()

    def _tell(self, why: str) -> None:
        if not self._is_told:
            logger.warning("hushlist: no notice goes out by %s: %s", self.channel.name, why)
        self._is_told = True
