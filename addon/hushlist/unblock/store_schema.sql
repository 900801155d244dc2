-- The tables of the store of temporary unblocks, see store.py. Times are seconds since the epoch.
CREATE TABLE keys (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE grants (
    id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, target TEXT NOT NULL, client TEXT, until REAL NOT NULL,
    how TEXT NOT NULL, by TEXT NOT NULL, made REAL NOT NULL);
CREATE INDEX grants_by_client ON grants (client, until);
CREATE TABLE codes (
    hash BLOB PRIMARY KEY, scope TEXT NOT NULL, target TEXT, client TEXT, seconds REAL NOT NULL, until REAL NOT NULL,
    by TEXT NOT NULL, used REAL);
CREATE TABLE tries (id INTEGER PRIMARY KEY, at REAL NOT NULL, client TEXT);
CREATE TABLE locks (client TEXT PRIMARY KEY, until REAL NOT NULL, seconds REAL NOT NULL);
CREATE TABLE nonces (nonce BLOB PRIMARY KEY, until REAL NOT NULL);
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, what TEXT NOT NULL, client TEXT, scope TEXT, target TEXT,
    how TEXT NOT NULL, by TEXT NOT NULL, grant_id INTEGER);
CREATE INDEX events_by_client ON events (client, id);
