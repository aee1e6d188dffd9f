export const sql = `
-- What is kept of a token is its hash: who reads this table can use none of them.
CREATE TABLE token (
  id         TEXT PRIMARY KEY,
  tenant     TEXT NOT NULL REFERENCES tenant (name) ON DELETE CASCADE,
  hash       TEXT NOT NULL UNIQUE,
  name       TEXT NOT NULL,
  -- JSON: what it permits.
  "grant"    TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) WITHOUT ROWID;
CREATE INDEX token_by_tenant ON token (tenant);
`;
