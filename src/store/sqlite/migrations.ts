const contentAndNames = `
CREATE TABLE content (
  id    INTEGER PRIMARY KEY,
  cid   TEXT NOT NULL UNIQUE,
  bytes BLOB NOT NULL
);

-- Tenants share bytes. A tenant can read a content only if it has a claim here.
CREATE TABLE tenant_content (
  tenant     TEXT NOT NULL,
  content_id INTEGER NOT NULL REFERENCES content (id),
  PRIMARY KEY (tenant, content_id)
) WITHOUT ROWID;
-- Deleting a tenant looks up who else has its content.
CREATE INDEX tenant_content_by_content ON tenant_content (content_id);

-- Content that nothing of its tenant refers to, and since when. Collection later deletes it and its claim.
CREATE TABLE left_content (
  tenant     TEXT NOT NULL,
  content_id INTEGER NOT NULL REFERENCES content (id),
  since      INTEGER NOT NULL,
  PRIMARY KEY (tenant, content_id)
) WITHOUT ROWID;
CREATE INDEX left_content_by_content ON left_content (content_id);

-- A cache: content known to refer to no other content, so that collection does not parse it again.
CREATE TABLE content_leaf (
  content_id INTEGER PRIMARY KEY REFERENCES content (id) ON DELETE CASCADE,
  is_package INTEGER NOT NULL
);

CREATE TABLE name (
  tenant     TEXT NOT NULL,
  kind       TEXT NOT NULL,
  name       TEXT NOT NULL,
  cid        TEXT NOT NULL REFERENCES content (cid),
  changed_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, kind, name)
) WITHOUT ROWID;
CREATE INDEX name_by_cid ON name (cid);

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
CREATE INDEX derived_by_content ON derived (content_id);

-- The content that a derived result was built from: a tenant that drops all of it drops the result.
CREATE TABLE derived_source (
  key TEXT NOT NULL REFERENCES derived (key) ON DELETE CASCADE,
  cid TEXT NOT NULL,
  PRIMARY KEY (key, cid)
) WITHOUT ROWID;

-- The tenants that have used a derived result: it is deleted with the last of them.
CREATE TABLE tenant_derived (
  tenant TEXT NOT NULL,
  key    TEXT NOT NULL REFERENCES derived (key),
  PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE INDEX tenant_derived_by_key ON tenant_derived (key);

-- The latest change of a tenant after which the unused parts of the file were overwritten.
CREATE TABLE scrubbed (through INTEGER NOT NULL);
INSERT INTO scrubbed (through) VALUES (0);
`;

const recordsAndServerData = `
-- Short-lived data that changes often, such as tasks: not addressed by content, and without history.
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

-- What servers store. Its rows refer to a row of their server, so that one update moves or drops all of them.
CREATE TABLE server_data (
  id      INTEGER PRIMARY KEY,
  tenant  TEXT NOT NULL,
  kind    TEXT NOT NULL,
  server  TEXT NOT NULL,
  -- Sums over its rows, and the highest version that any of its values ever had.
  items   INTEGER NOT NULL,
  bytes   INTEGER NOT NULL,
  version INTEGER NOT NULL,
  UNIQUE (tenant, kind, server)
);

CREATE TABLE server_value (
  id         INTEGER PRIMARY KEY,
  server_id  INTEGER NOT NULL REFERENCES server_data (id),
  key        TEXT NOT NULL,
  value      BLOB NOT NULL,
  is_json    INTEGER NOT NULL,
  version    INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  expires_at INTEGER,
  UNIQUE (server_id, key)
);
CREATE INDEX server_value_by_expiry ON server_value (server_id, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE retained_call (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  server_id  INTEGER NOT NULL REFERENCES server_data (id),
  at         INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  tool       TEXT NOT NULL,
  outcome    TEXT NOT NULL,
  micros     INTEGER NOT NULL,
  principal  TEXT,
  -- JSON: the arguments and the result.
  body       TEXT NOT NULL
);
CREATE INDEX retained_call_by_time ON retained_call (server_id, at, id);
CREATE INDEX retained_call_by_expiry ON retained_call (expires_at);
`;

const tenants = `
CREATE TABLE tenant (
  name         TEXT PRIMARY KEY,
  created_at   INTEGER NOT NULL,
  suspended_at INTEGER,
  -- JSON: an object of limits by their names.
  limits       TEXT NOT NULL,
  -- JSON: the authorization server whose access tokens the tenant accepts; NULL for none.
  oauth        TEXT,
  -- When an import last replaced everything of the tenant; NULL for never.
  replaced_at  INTEGER
) WITHOUT ROWID;
INSERT INTO tenant (name, created_at, limits)
VALUES ('default', CAST(strftime('%s', 'now') AS INTEGER) * 1000, '{}');

CREATE TABLE tenant_host (
  host   TEXT PRIMARY KEY,
  tenant TEXT NOT NULL REFERENCES tenant (name) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX tenant_host_by_tenant ON tenant_host (tenant);

-- Only the hash of a token is stored: reading this table yields no usable token.
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

-- Values sealed with one key at a time. They are not content: a deleted value must be gone, and no CID may reveal it.
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

const audit = `
-- The order of arrival spans all chains; the place is that in the chain of the tenant, or for an anchor in the chain of
-- anchors. Retention sets a body to NULL; its digest stays in its link.
CREATE TABLE audit (
  arrival INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  tenant  TEXT NOT NULL,
  kind    TEXT NOT NULL,
  records INTEGER NOT NULL,
  bytes   INTEGER NOT NULL,
  digest  BLOB NOT NULL,
  hash    BLOB NOT NULL,
  body    TEXT,
  place   INTEGER NOT NULL
);
CREATE INDEX audit_by_time ON audit (at, arrival);
CREATE INDEX audit_by_tenant ON audit (tenant, at, arrival);
-- A query for a rare kind must not scan all calls.
CREATE INDEX audit_by_kind ON audit (tenant, kind, at, arrival);
CREATE INDEX audit_of_all_by_kind ON audit (kind, at, arrival);
CREATE INDEX audit_kept ON audit (tenant, (kind = 'call'), arrival) WHERE body IS NOT NULL AND kind <> 'retention';

-- The end of the chain of each tenant, and of the service (''), the place up to which an anchor covers it, and the bytes
-- of its bodies that retention may remove, of calls and of all else.
CREATE TABLE audit_chain (
  tenant      TEXT PRIMARY KEY,
  place       INTEGER NOT NULL,
  hash        BLOB NOT NULL,
  at          INTEGER NOT NULL,
  anchored    INTEGER NOT NULL,
  call_bytes  INTEGER NOT NULL,
  other_bytes INTEGER NOT NULL
) WITHOUT ROWID;

-- One row: the end of the chain of anchors.
CREATE TABLE audit_anchored (
  place INTEGER NOT NULL,
  hash  BLOB NOT NULL,
  at    INTEGER NOT NULL
);
INSERT INTO audit_anchored VALUES (0, zeroblob(32), 0);
`;

const nodes = `
-- The processes that serve from this store, the messages between them, and the leases of work that only one of them does.
CREATE TABLE node (
  id         TEXT PRIMARY KEY,
  facts      TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE letter (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  to_node    TEXT NOT NULL,
  bytes      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  text       TEXT NOT NULL
);
CREATE INDEX letter_by_node ON letter (to_node, id, bytes);
CREATE INDEX letter_by_expiry ON letter (expires_at);

CREATE TABLE lease (
  name     TEXT PRIMARY KEY,
  node     TEXT NOT NULL,
  fence    INTEGER NOT NULL,
  -- NULL while its node holds it.
  ended_at INTEGER
) WITHOUT ROWID;
`;

/**
 * The steps from an empty database to the current schema. A released step is never edited: the database stores how many
 * it has taken, so a change is a new step at the end.
 */
export const migrations: readonly string[] = [
  [contentAndNames, recordsAndServerData, tenants, audit, nodes].join("\n"),
];
