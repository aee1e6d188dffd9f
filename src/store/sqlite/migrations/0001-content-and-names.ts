export const sql = `
CREATE TABLE content (
  id    INTEGER PRIMARY KEY,
  cid   TEXT NOT NULL UNIQUE,
  bytes BLOB NOT NULL
);

-- Bytes are shared; who may read them is not.
CREATE TABLE tenant_content (
  tenant     TEXT NOT NULL,
  content_id INTEGER NOT NULL REFERENCES content (id),
  PRIMARY KEY (tenant, content_id)
) WITHOUT ROWID;

CREATE TABLE name (
  tenant     TEXT NOT NULL,
  kind       TEXT NOT NULL,
  name       TEXT NOT NULL,
  cid        TEXT NOT NULL REFERENCES content (cid),
  changed_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, kind, name)
) WITHOUT ROWID;

CREATE TABLE name_change (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant     TEXT NOT NULL,
  kind       TEXT NOT NULL,
  name       TEXT NOT NULL,
  cid        TEXT,
  changed_at INTEGER NOT NULL,
  changed_by TEXT NOT NULL
);
CREATE INDEX name_change_by_name ON name_change (tenant, kind, name, id);

CREATE TABLE derived (
  key        TEXT PRIMARY KEY,
  content_id INTEGER NOT NULL REFERENCES content (id)
) WITHOUT ROWID;
`;
