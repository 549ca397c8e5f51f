-- examples/fence/fence.sql — a fence in an SQL database.
--
-- One row of `fence` for each thing that a lock protects, named like the
-- lock. :token is the grant's fencing token (snib_grant.token, $SNIB_TOKEN).
-- Written for SQLite; PostgreSQL the same (placeholders aside); MySQL says
-- INSERT IGNORE for "INSERT ... ON CONFLICT DO NOTHING", and its client must
-- count matched rows, not changed ones (CLIENT_FOUND_ROWS).

-- name: schema
CREATE TABLE IF NOT EXISTS fence (
    name TEXT PRIMARY KEY,
    mark BIGINT NOT NULL
);

-- name: make
-- Once for each name, in advance or before `enter`; harmless to repeat.
INSERT INTO fence (name, mark) VALUES (:name, 0) ON CONFLICT DO NOTHING;

-- name: enter
-- First thing in the section, before anything is read; committed by itself.
-- 1 row: go on. 0 rows: a later holder was here, stop.
UPDATE fence SET mark = :token WHERE name = :name AND mark <= :token;

-- name: check
-- In the transaction of every write, before the write (the update takes the
-- row's lock, so that no later holder can enter between check and commit).
-- 1 row: write and commit. 0 rows: roll back, stop.
UPDATE fence SET mark = :token WHERE name = :name AND mark = :token;
