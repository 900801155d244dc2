-- The tables of the store of temporary unblocks, see store.py. Times are seconds since the epoch.
-- A table that is added here is made in older stores, too. A table that is changed needs another version.
CREATE TABLE IF NOT EXISTS keys (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS grants (
    id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, target TEXT NOT NULL, client TEXT, until REAL NOT NULL,
    how TEXT NOT NULL, by TEXT NOT NULL, made REAL NOT NULL);
CREATE INDEX IF NOT EXISTS grants_by_client ON grants (client, until);
CREATE TABLE IF NOT EXISTS admin_blocks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, target TEXT NOT NULL, client TEXT, until REAL,
    reason TEXT, by TEXT NOT NULL, made REAL NOT NULL);
CREATE TABLE IF NOT EXISTS codes (
    hash BLOB PRIMARY KEY, scope TEXT NOT NULL, target TEXT, client TEXT, seconds REAL NOT NULL, until REAL NOT NULL,
    by TEXT NOT NULL, used REAL);
CREATE TABLE IF NOT EXISTS tries (id INTEGER PRIMARY KEY, at REAL NOT NULL, client TEXT);
CREATE TABLE IF NOT EXISTS locks (client TEXT PRIMARY KEY, until REAL NOT NULL, seconds REAL NOT NULL);
CREATE TABLE IF NOT EXISTS nonces (nonce BLOB PRIMARY KEY, until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, what TEXT NOT NULL, client TEXT, scope TEXT, target TEXT,
    how TEXT NOT NULL, by TEXT NOT NULL, grant_id INTEGER);
CREATE INDEX IF NOT EXISTS events_by_client ON events (client, id);
CREATE TABLE IF NOT EXISTS access_requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT, client TEXT NOT NULL, address TEXT NOT NULL, in_group TEXT, host TEXT NOT NULL,
    url TEXT NOT NULL, category TEXT, reason TEXT NOT NULL, asked REAL NOT NULL, until REAL NOT NULL,
    times INTEGER NOT NULL, state TEXT NOT NULL, decided REAL, by TEXT, word TEXT, seen TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS access_requests_by_client ON access_requests (client, host, id);
-- what one tap at a notice does: of its token, a hash
CREATE TABLE IF NOT EXISTS taps (
    id INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB UNIQUE NOT NULL, subject TEXT NOT NULL, choice TEXT NOT NULL,
    recipient TEXT NOT NULL, until REAL NOT NULL, used REAL);
CREATE INDEX IF NOT EXISTS taps_by_subject ON taps (subject);
-- hits that may become an alert, in slots of time, and alerts
CREATE TABLE IF NOT EXISTS alert_hits (
    id INTEGER PRIMARY KEY AUTOINCREMENT, alert TEXT NOT NULL, whom TEXT NOT NULL, slot INTEGER NOT NULL,
    number INTEGER NOT NULL, UNIQUE (alert, whom, slot));
CREATE TABLE IF NOT EXISTS alerts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, alert TEXT NOT NULL, whom TEXT NOT NULL, first REAL NOT NULL,
    last REAL NOT NULL, number INTEGER NOT NULL, about TEXT NOT NULL, due REAL, told REAL, times INTEGER NOT NULL,
    seen REAL, seen_by TEXT);
CREATE INDEX IF NOT EXISTS alerts_by_whom ON alerts (alert, whom, id);
CREATE TABLE IF NOT EXISTS alert_devices (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL, at REAL NOT NULL);
-- what people have reported as a mistake
CREATE TABLE IF NOT EXISTS reports (
    id INTEGER PRIMARY KEY AUTOINCREMENT, client TEXT NOT NULL, address TEXT NOT NULL, in_group TEXT, host TEXT NOT NULL,
    url TEXT NOT NULL, rule TEXT NOT NULL, line INTEGER NOT NULL, list TEXT NOT NULL, source TEXT NOT NULL,
    version TEXT NOT NULL, publisher TEXT NOT NULL, digest TEXT NOT NULL, shape TEXT NOT NULL, words TEXT NOT NULL,
    seen TEXT NOT NULL, asked REAL NOT NULL, times INTEGER NOT NULL, settled REAL, by TEXT);
CREATE TABLE IF NOT EXISTS use_minutes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, client TEXT NOT NULL, category TEXT NOT NULL, minute INTEGER NOT NULL,
    UNIQUE (client, category, minute));
CREATE TABLE IF NOT EXISTS extensions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, client TEXT, category TEXT NOT NULL, minutes INTEGER NOT NULL,
    minute INTEGER NOT NULL, by TEXT NOT NULL);
