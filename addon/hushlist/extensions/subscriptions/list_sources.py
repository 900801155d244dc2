"""Where a list of a policy is that is no file: by its URL, or by its name in the catalogue."""

from __future__ import annotations

from hushlist.core.errors import SourceError, did_you_mean
from hushlist.core.lists.list_formats import FOLDERS
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.policy.key_types import Reading
from hushlist.core.policy.list_reader import read_entry, read_list
from hushlist.core.policy.policy_file import ListFile, list_files
from hushlist.extensions.subscriptions.gate_limits import GateLimits
from hushlist.extensions.subscriptions.list_store import ListStore
from hushlist.extensions.subscriptions.subscription import NO_COPY, SubscribedList, Subscription, read_subscription


def fetched_files(entry: YamlNode, layer: str, reading: Reading) -> list[ListFile]:
    """The copy of a list that is fetched; none if there is none yet, which is an error unless it is optional."""
    said = read_entry(entry, layer, reading)
    if "file" in said.fields:
        said.fields.error("file", "a list has a file, or a url and how it is fetched")
    url = said.fields.text("url")
    if url is None:
        return []

    def find(form: str | None) -> list[ListFile]:
        subscription = read_subscription(said.fields, reading)
        if subscription is None:
            return []
        if form in FOLDERS:
            why = f"the format {form} is for folders, and a folder cannot be fetched"
            reading.report.error(subscription.line, subscription.url, why)
            return []
        return copies(subscription, form, said.defaults, said.values["gate"], reading)

    return said.files("url", reading.path.parent / url.partition("?")[0].rpartition("/")[2], find, url)


def copies(
    subscription: Subscription, form: str | None, defaults: ListDefaults, gate: GateLimits, reading: Reading
) -> list[ListFile]:
    """The copy of a list; ``SourceError`` if nothing tells its format."""
    report, url, line = reading.report, subscription.url, subscription.line
    foreign = reading.table.foreign()
    try:
        store = ListStore(reading.path, subscription.identity)
    except RuntimeError as error:
        report.error(line, url, str(error))
        return []
    for subscribed in reading.subscribed:
        if subscribed.store.folder == store.folder and (subscribed.form, subscribed.gate) != (form, gate):
            why = f"line {subscribed.subscription.line} has it with another format or gate, and both share one copy"
            report.error(line, url, f"{why}: give them the same")
    reading.subscribed.append(
        SubscribedList(subscription, form, defaults, gate, store, tuple(each.name for each in foreign))
    )
    reading.is_there(store.pointer)
    version = store.current()
    if version is not None:
        files = list_files(version.path, form, defaults, reading.is_there, foreign)
        return [file._replace(url=url, values={"gate": gate}) for file in files]
    if not subscription.is_optional:
        fault, update = store.state().fault, f"hushlist update --policy {reading.path}"
        tried = f", and fetching it failed: {fault}; '{update}' tries again" if fault else f": run '{update}'"
        report.error(line, url, f"{NO_COPY}{tried}")
    return []


def catalogue_files(entry: YamlNode, layer: str, reading: Reading) -> list[ListFile]:
    """The copy of a list of the catalogue, of which the catalogue says what the entry does not."""
    from hushlist.extensions.subscriptions.catalogue import read_catalogue, shipped_catalogue  # few policies need it

    assert isinstance(entry.value, dict)
    nodes, report = entry.value, reading.report
    name, line = nodes["catalogue"], nodes["catalogue"].line
    try:
        catalogue = read_catalogue(shipped_catalogue())
    except SourceError as error:
        report.error(line, "catalogue", str(error.problems[0]))
        return []
    listed = catalogue.get(name.value) if isinstance(name.value, str) else None
    if listed is None:
        near = did_you_mean(str(name.value), catalogue)
        report.error(line, f"catalogue: {name}", f"it has no such list{near} (see 'hushlist lists --catalogue')")
        return []
    if both := [key for key in ("file", "url") if key in nodes]:
        report.error(line, "catalogue", f"it says where the list is: leave out {both[0]!r}")
        return []
    where = {"file": str(shipped_catalogue().with_name(listed.file))} if listed.file else {"url": listed.url}
    said = {**where, "format": listed.format, "title": listed.title, "category": listed.category}
    of_catalogue = {key: YamlNode(line, text) for key, text in said.items()}
    if listed.gate:
        of_catalogue["gate"] = YamlNode(line, {key: YamlNode(line, text) for key, text in listed.gate.items()})
    rest = {key: value for key, value in nodes.items() if key != "catalogue"}
    return read_list(YamlNode(entry.line, of_catalogue | rest), layer, reading)
