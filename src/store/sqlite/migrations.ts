const contentAndNames = `
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

const records = `
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

const secrets = `
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

const tenants = `
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

const tokens = `
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

const holdersOfContent = `
-- Who holds a content is asked when a tenant is deleted.
CREATE INDEX tenant_content_by_content ON tenant_content (content_id);
CREATE INDEX derived_by_content ON derived (content_id);
CREATE INDEX name_by_cid ON name (cid);
`;

const oauthOfTenants = `
-- JSON: the authorization server whose access tokens the tenant takes; NULL for none.
ALTER TABLE tenant ADD COLUMN oauth TEXT;
`;

const holdersOfResults = `
-- Who has used a derived result: what only one tenant has used goes with it.
CREATE TABLE tenant_derived (
  tenant TEXT NOT NULL,
  key    TEXT NOT NULL REFERENCES derived (key),
  PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE INDEX tenant_derived_by_key ON tenant_derived (key);

-- Of what was there before nobody knows who uses it: it is held by a name that no tenant has, and stays.
INSERT INTO tenant_derived (tenant, key) SELECT '', key FROM derived;
`;

const audit = `
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

const auditByKind = `
-- Whoever looks for a few records of one kind is not to walk past all the calls.
CREATE INDEX audit_by_kind ON audit (tenant, kind, at, number);
`;

const replacedTenants = `
-- When an import has replaced all that a tenant had; NULL for never. Before, it counted as made anew then.
ALTER TABLE tenant ADD COLUMN replaced_at INTEGER;
`;

const auditOfAllByKind = `
-- The same for whoever looks for one kind in the log of all tenants.
CREATE INDEX audit_of_all_by_kind ON audit (kind, at, number);
`;

const leftContent = `
-- Content that nothing of its tenant refers to, and since when. Once the claim is gone, too, the tenant cannot read it.
CREATE TABLE left_content (
  tenant     TEXT NOT NULL,
  content_id INTEGER NOT NULL REFERENCES content (id),
  since      INTEGER NOT NULL,
  PRIMARY KEY (tenant, content_id)
) WITHOUT ROWID;
CREATE INDEX left_content_by_content ON left_content (content_id);

-- Content that names no other, as far as that is known: nobody has to read it again to find out.
CREATE TABLE content_leaf (
  content_id INTEGER PRIMARY KEY REFERENCES content (id) ON DELETE CASCADE,
  is_package INTEGER NOT NULL
);

-- What a derived result was made of. A tenant that lets go of all that lets go of the result.
CREATE TABLE derived_source (
  key TEXT NOT NULL REFERENCES derived (key) ON DELETE CASCADE,
  cid TEXT NOT NULL,
  PRIMARY KEY (key, cid)
) WITHOUT ROWID;

-- The latest change of a tenant after which the unused parts of the file were overwritten.
CREATE TABLE scrubbed (through INTEGER NOT NULL);
INSERT INTO scrubbed (through) VALUES (0);

-- Of other results that were there before nobody knows it: they stay as long as their tenants.
INSERT INTO derived_source (key, cid)
SELECT key, substr(key, length('release-compiler:') + 1) FROM derived WHERE key LIKE 'release-compiler:%';
INSERT INTO derived_source (key, cid)
SELECT key, CAST(bytes AS TEXT) FROM derived JOIN content ON id = content_id WHERE key LIKE 'believed-image:%';
`;

const state = `
-- What servers keep. Keys hang on a row of their server, so that all of them change hands or are left behind at once.
CREATE TABLE state_server (
  id      INTEGER PRIMARY KEY,
  tenant  TEXT NOT NULL,
  server  TEXT NOT NULL,
  -- The sums of its keys; and the highest version that any of them ever had.
  keys    INTEGER NOT NULL,
  bytes   INTEGER NOT NULL,
  version INTEGER NOT NULL,
  UNIQUE (tenant, server)
);

CREATE TABLE state (
  id         INTEGER PRIMARY KEY,
  server_id  INTEGER NOT NULL REFERENCES state_server (id),
  key        TEXT NOT NULL,
  value      BLOB NOT NULL,
  is_json    INTEGER NOT NULL,
  version    INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  expires_at INTEGER,
  UNIQUE (server_id, key)
);
CREATE INDEX state_by_expiry ON state (expires_at) WHERE expires_at IS NOT NULL;
`;

const nodes = `
-- The processes that serve from here, what they tell each other, and what only one of them does.
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

const auditChains = `
-- A link's place in the chain of its tenant, or for an anchor in that of the anchors. NULL in the one chain that all
-- tenants had before, whose numbers now only say in which order links arrived. An earlier version that has the store open
-- fails for want of the column, and so cannot go on with that chain.
ALTER TABLE audit RENAME COLUMN number TO arrival;
ALTER TABLE audit ADD COLUMN place INTEGER;

-- The end of each tenant's chain, and of the service's (''), the place up to which an anchor holds it, and how much of
-- its bodies is kept that retention may remove, of calls and of all else.
CREATE TABLE audit_chain (
  tenant      TEXT PRIMARY KEY,
  place       INTEGER NOT NULL,
  hash        BLOB NOT NULL,
  at          INTEGER NOT NULL,
  anchored    INTEGER NOT NULL,
  call_bytes  INTEGER NOT NULL,
  other_bytes INTEGER NOT NULL
) WITHOUT ROWID;

-- One row: the end of the anchors, and of the one chain of before, which they continue and all others begin with.
CREATE TABLE audit_anchored (
  place        INTEGER NOT NULL,
  hash         BLOB NOT NULL,
  at           INTEGER NOT NULL,
  origin_place INTEGER NOT NULL,
  origin_hash  BLOB NOT NULL
);
INSERT INTO audit_anchored SELECT arrival, hash, at, arrival, hash FROM audit ORDER BY arrival DESC LIMIT 1;
INSERT INTO audit_anchored SELECT 0, zeroblob(32), 0, 0, zeroblob(32) WHERE NOT EXISTS (SELECT 1 FROM audit);

INSERT INTO audit_chain
SELECT kept.tenant, 0, origin_hash, audit_anchored.at, 0, sum(iif(is_call, bytes, 0)), sum(iif(is_call, 0, bytes))
FROM audit_kept_bytes AS kept, audit_anchored GROUP BY kept.tenant;
DROP TABLE audit_kept_bytes;
`;

const keptCalls = `
-- The calls that servers keep. They hang on a row of their server, so that all of them are left behind at once.
CREATE TABLE kept_call_server (
  id     INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  server TEXT NOT NULL,
  -- The sums of its calls.
  calls  INTEGER NOT NULL,
  bytes  INTEGER NOT NULL,
  UNIQUE (tenant, server)
);

CREATE TABLE kept_call (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  server_id  INTEGER NOT NULL REFERENCES kept_call_server (id),
  at         INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  tool       TEXT NOT NULL,
  outcome    TEXT NOT NULL,
  micros     INTEGER NOT NULL,
  principal  TEXT,
  -- JSON: what was said in it.
  body       TEXT NOT NULL
);
CREATE INDEX kept_call_by_time ON kept_call (server_id, at, id);
CREATE INDEX kept_call_by_expiry ON kept_call (expires_at);
`;

/**
 * The steps from an empty database to today's, in order. A step that was released is never edited: the database
 * remembers how many it has taken (`user_version`), so a change is a new step at the end.
 */
export const migrations: readonly string[] = [
  contentAndNames,
  records,
  secrets,
  tenants,
  tokens,
  holdersOfContent,
  oauthOfTenants,
  holdersOfResults,
  audit,
  auditByKind,
  replacedTenants,
  auditOfAllByKind,
  leftContent,
  state,
  nodes,
  auditChains,
  keptCalls,
];
