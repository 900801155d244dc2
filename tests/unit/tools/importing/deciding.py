"""What an imported policy decides, after it has been written and compiled."""

from datetime import datetime
from pathlib import Path

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy.groups import Client
from hushlist.core.policy.policy_reader import read_policy
from hushlist.tools.importing.imported_policy import ImportedPolicy


class Written:
    """A policy in a folder, and its engine."""

    def __init__(self, policy: ImportedPolicy, folder: Path) -> None:
        self.folder = folder
        self.messages = [str(problem) for problem in (*policy.warnings, *policy.write(folder))]
        self.engine: Engine = self.fetched()

    def __call__(self, url: str, client: str = "", at: str = "2026-11-23T12:00", user: str | None = None) -> str:
        """The action; the moment, a Monday's noon, is by the policy's clock."""
        moment = datetime.fromisoformat(at).replace(tzinfo=self.engine.policy.zone)
        return str(self.engine.decide_url(f"http://{url}/".encode(), moment, Client(client, user)).action)

    def fetched(self, **texts: str) -> Engine:
        """The engine, as if each list that is to be fetched had the text that is given for the last of its address."""
        known = read_policy(self.folder / "policy.yaml", ProblemReport(""))
        assert known is not None
        for own in known.subscribed:
            with own.store.locked():
                own.store.use(own.store.keep(texts.get(own.subscription.url.rpartition("/")[2], "").encode()))
        self.engine = load_engine(self.folder / "policy.yaml")
        return self.engine

    def uncomment(self) -> None:
        """Use the lists that are comments, as the policy asks for."""
        path = self.folder / "policy.yaml"
        path.write_text(path.read_text().replace("# - {", "- {").replace("# lists:", "lists:"))
        self.engine = load_engine(path)

    def messages_with(self, *words: str) -> list[str]:
        """What is said of something."""
        return [line for line in self.messages if all(word in line for word in words)]
