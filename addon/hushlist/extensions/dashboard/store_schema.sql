-- The tables of the file of administrators, see admin_store.py. Times are seconds since the epoch, and tokens are hashes.
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB UNIQUE NOT NULL, name TEXT NOT NULL, proof BLOB NOT NULL,
    is_secure INTEGER NOT NULL, client TEXT NOT NULL, made REAL NOT NULL, until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS bearers (
    id INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB UNIQUE NOT NULL, name TEXT UNIQUE NOT NULL, role TEXT NOT NULL,
    by TEXT NOT NULL, made REAL NOT NULL, until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS devices (
    id INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL, name TEXT NOT NULL, client TEXT NOT NULL,
    until REAL NOT NULL, UNIQUE (hash, name));
CREATE TABLE IF NOT EXISTS tries (id INTEGER PRIMARY KEY, at REAL NOT NULL, client TEXT);
CREATE INDEX IF NOT EXISTS tries_by_client ON tries (client, at);
CREATE TABLE IF NOT EXISTS locks (client TEXT PRIMARY KEY, until REAL NOT NULL, seconds REAL NOT NULL);
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, who TEXT NOT NULL, client TEXT NOT NULL, what TEXT NOT NULL,
    detail TEXT NOT NULL, role TEXT, undo TEXT, undone REAL, undone_by TEXT);
