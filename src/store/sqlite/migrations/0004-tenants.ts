export const sql = `
CREATE TABLE tenant (
  name         TEXT PRIMARY KEY,
  created_at   INTEGER NOT NULL,
  suspended_at INTEGER,
  -- JSON: an object of limits by their names.
  limits       TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE tenant_host (
  host   TEXT PRIMARY KEY,
  tenant TEXT NOT NULL REFERENCES tenant (name) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX tenant_host_by_tenant ON tenant_host (tenant);

INSERT INTO tenant (name, created_at, limits)
SELECT 'default', coalesce(min(changed_at), CAST(strftime('%s', 'now') AS INTEGER) * 1000), '{}'
FROM name_change WHERE tenant = 'default';

-- Who was given names before there was a registry is a tenant, too.
INSERT OR IGNORE INTO tenant (name, created_at, limits)
SELECT tenant, min(changed_at), '{}' FROM name_change WHERE tenant <> 'default' GROUP BY tenant;
`;
