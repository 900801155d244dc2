-- The table of the log, see log_database.py. A database has it in extensions/databases/migrations. Times are texts.
CREATE TABLE IF NOT EXISTS decisions (
    number INTEGER PRIMARY KEY, reference TEXT, time TEXT, client TEXT, user TEXT, action TEXT, category TEXT, list TEXT,
    title TEXT, rule TEXT, host TEXT, file TEXT, media_type TEXT, file_name TEXT, record TEXT);
CREATE INDEX IF NOT EXISTS by_reference ON decisions (reference);
CREATE INDEX IF NOT EXISTS by_time ON decisions (time);
-- How many requests there were, see request_counts.py. What is not known is empty.
CREATE TABLE IF NOT EXISTS counts (
    quarter INTEGER, client TEXT, user TEXT, of_group TEXT, action TEXT, number INTEGER,
    UNIQUE (quarter, client, user, of_group, action));
