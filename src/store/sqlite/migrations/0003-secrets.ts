export const sql = `
-- Sealed values, all with one key at a time. No content: what is replaced or deleted is gone, and no CID tells of it.
CREATE TABLE secret (
  tenant     TEXT NOT NULL,
  name       TEXT NOT NULL,
  key_id     TEXT NOT NULL,
  sealed     BLOB NOT NULL,
  changed_at INTEGER NOT NULL,
  changed_by TEXT NOT NULL,
  PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
`;
