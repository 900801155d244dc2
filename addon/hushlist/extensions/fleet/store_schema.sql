-- The table of the proxies, see proxy_records.py. A database has it in extensions/databases/migrations. Times are seconds since the epoch. A record is an object of JSON.
CREATE TABLE IF NOT EXISTS proxies (name TEXT PRIMARY KEY, at REAL NOT NULL, record TEXT NOT NULL);
