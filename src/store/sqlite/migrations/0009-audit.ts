export const sql = `
-- One chain for the whole store. A body is NULL once retention has removed it; its digest stays in its link.
CREATE TABLE audit (
  number  INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  tenant  TEXT NOT NULL,
  kind    TEXT NOT NULL,
  records INTEGER NOT NULL,
  bytes   INTEGER NOT NULL,
  digest  BLOB NOT NULL,
  hash    BLOB NOT NULL,
  body    TEXT
);
CREATE INDEX audit_by_time ON audit (at, number);
CREATE INDEX audit_by_tenant ON audit (tenant, at, number);
CREATE INDEX audit_kept ON audit (tenant, (kind = 'call'), number) WHERE body IS NOT NULL AND kind <> 'retention';

-- How much of each tenant's bodies is kept that retention may remove, of calls and of all else.
CREATE TABLE audit_kept_bytes (
  tenant  TEXT NOT NULL,
  is_call INTEGER NOT NULL,
  bytes   INTEGER NOT NULL,
  PRIMARY KEY (tenant, is_call)
) WITHOUT ROWID;
`;
