export const sql = `
-- What changes often and is not kept for ever, such as tasks: no content, no history.
CREATE TABLE record (
  id         INTEGER PRIMARY KEY,
  tenant     TEXT NOT NULL,
  kind       TEXT NOT NULL,
  key        TEXT NOT NULL,
  revision   INTEGER NOT NULL,
  value      TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  UNIQUE (tenant, kind, key)
);
CREATE INDEX record_by_expiry ON record (expires_at);
`;
