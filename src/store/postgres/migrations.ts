/** The clock of the database in milliseconds since the epoch, which all nodes share. */
const clock = `
CREATE FUNCTION berth_now() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;
`;

const contentAndNames = `
CREATE TABLE content (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  cid        text COLLATE "C" NOT NULL UNIQUE,
  bytes      bytea NOT NULL,
  -- Known to refer to no other content, so that collection does not parse it again.
  is_leaf    boolean NOT NULL DEFAULT false,
  is_package boolean NOT NULL DEFAULT false
);
-- Content is always read whole, and most of it is compressed already or short.
ALTER TABLE content ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Parts of content that is too long for one statement; the same transaction joins and deletes them.
CREATE UNLOGGED TABLE content_part (
  cid   text COLLATE "C" NOT NULL,
  start bigint NOT NULL,
  bytes bytea NOT NULL
);
ALTER TABLE content_part ALTER COLUMN bytes SET STORAGE EXTERNAL;

CREATE TABLE tenant_content (
  tenant     text COLLATE "C" NOT NULL,
  content_id bigint NOT NULL REFERENCES content (id),
  PRIMARY KEY (tenant, content_id)
);
CREATE INDEX tenant_content_by_content ON tenant_content (content_id);

CREATE TABLE left_content (
  tenant     text COLLATE "C" NOT NULL,
  content_id bigint NOT NULL REFERENCES content (id),
  since      bigint NOT NULL,
  PRIMARY KEY (tenant, content_id)
);
CREATE INDEX left_content_by_content ON left_content (content_id);

CREATE TABLE name (
  tenant     text COLLATE "C" NOT NULL,
  kind       text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  cid        text COLLATE "C" NOT NULL REFERENCES content (cid),
  changed_at bigint NOT NULL,
  PRIMARY KEY (tenant, kind, name)
);
CREATE INDEX name_by_cid ON name (cid);

-- Changes are numbered in the order of their commits, without gaps: each locks the row of the counter below until it
-- ends. Imported changes have negative numbers, above those of imports into SQLite. writer: the process that wrote it.
CREATE TABLE name_change (
  id         bigint PRIMARY KEY,
  tenant     text COLLATE "C" NOT NULL,
  kind       text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  cid        text COLLATE "C",
  changed_at bigint NOT NULL,
  changed_by text NOT NULL,
  writer     text NOT NULL DEFAULT ''
);
CREATE INDEX name_change_by_name ON name_change (tenant, kind, name, id);

CREATE TABLE name_change_counter (latest bigint NOT NULL);
INSERT INTO name_change_counter VALUES (0);
CREATE SEQUENCE imported_change MINVALUE -1099511627776 START -1099511627776 MAXVALUE -1;

CREATE TABLE derived (
  key        text COLLATE "C" PRIMARY KEY,
  content_id bigint NOT NULL REFERENCES content (id)
);
CREATE INDEX derived_by_content ON derived (content_id);

CREATE TABLE derived_source (
  key text COLLATE "C" NOT NULL REFERENCES derived (key) ON DELETE CASCADE,
  cid text COLLATE "C" NOT NULL,
  PRIMARY KEY (key, cid)
);

CREATE TABLE tenant_derived (
  tenant text COLLATE "C" NOT NULL,
  key    text COLLATE "C" NOT NULL REFERENCES derived (key),
  PRIMARY KEY (tenant, key)
);
CREATE INDEX tenant_derived_by_key ON tenant_derived (key);
`;

const recordsAndServerData = `
CREATE TABLE record (
  tenant     text COLLATE "C" NOT NULL,
  kind       text COLLATE "C" NOT NULL,
  key        text COLLATE "C" NOT NULL,
  revision   bigint NOT NULL,
  value      text NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (tenant, kind, key)
);
CREATE INDEX record_by_expiry ON record (expires_at);

CREATE TABLE server_data (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant  text COLLATE "C" NOT NULL,
  kind    text COLLATE "C" NOT NULL,
  server  text COLLATE "C" NOT NULL,
  items   bigint NOT NULL,
  bytes   bigint NOT NULL,
  version bigint NOT NULL,
  UNIQUE (tenant, kind, server)
);

CREATE TABLE server_value (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  server_id  bigint NOT NULL REFERENCES server_data (id),
  key        text COLLATE "C" NOT NULL,
  value      bytea NOT NULL,
  is_json    boolean NOT NULL,
  version    bigint NOT NULL,
  changed_at bigint NOT NULL,
  expires_at bigint,
  UNIQUE (server_id, key)
);
CREATE INDEX server_value_by_expiry ON server_value (server_id, expires_at) WHERE expires_at IS NOT NULL;
`;

const tenants = `
CREATE TABLE tenant (
  name         text COLLATE "C" PRIMARY KEY,
  created_at   bigint NOT NULL,
  replaced_at  bigint,
  suspended_at bigint,
  -- JSON as text, so that a copy has the same bytes.
  limits       text NOT NULL,
  oauth        text
);
INSERT INTO tenant (name, created_at, limits) VALUES ('default', berth_now(), '{}');

CREATE TABLE tenant_host (
  host   text COLLATE "C" PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL REFERENCES tenant (name) ON DELETE CASCADE
);
CREATE INDEX tenant_host_by_tenant ON tenant_host (tenant);

CREATE TABLE token (
  id         text COLLATE "C" PRIMARY KEY,
  tenant     text COLLATE "C" NOT NULL REFERENCES tenant (name) ON DELETE CASCADE,
  hash       text COLLATE "C" NOT NULL UNIQUE,
  name       text NOT NULL,
  "grant"    text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
);
CREATE INDEX token_by_tenant ON token (tenant, created_at, id);

-- Imports in progress. Their rows have an alias of the id as their tenant.
CREATE TABLE staging (
  id         text COLLATE "C" PRIMARY KEY,
  expires_at bigint NOT NULL
);

CREATE TABLE secret (
  tenant     text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  key_id     text COLLATE "C" NOT NULL,
  sealed     bytea NOT NULL,
  changed_at bigint NOT NULL,
  changed_by text NOT NULL,
  PRIMARY KEY (tenant, name)
);
`;

const audit = `
CREATE TABLE audit (
  arrival bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  place   bigint NOT NULL,
  at      bigint NOT NULL,
  since   bigint NOT NULL,
  tenant  text COLLATE "C" NOT NULL,
  kind    text COLLATE "C" NOT NULL,
  records bigint NOT NULL,
  bytes   bigint NOT NULL,
  digest  bytea NOT NULL,
  hash    bytea NOT NULL,
  body    text
);
CREATE INDEX audit_by_time ON audit (at, arrival);
CREATE INDEX audit_by_tenant ON audit (tenant, at, arrival);
CREATE INDEX audit_by_kind ON audit (tenant, kind, at, arrival);
CREATE INDEX audit_of_all_by_kind ON audit (kind, at, arrival);
CREATE INDEX audit_kept ON audit (tenant, (kind = 'call'), arrival)
  WHERE body IS NOT NULL AND kind NOT IN ('retention', 'anchor');

CREATE TABLE audit_chain (
  tenant      text COLLATE "C" PRIMARY KEY,
  place       bigint NOT NULL,
  hash        bytea NOT NULL,
  at          bigint NOT NULL,
  anchored    bigint NOT NULL,
  call_bytes  bigint NOT NULL,
  other_bytes bigint NOT NULL
);

CREATE TABLE audit_anchored (
  place bigint NOT NULL,
  hash  bytea NOT NULL,
  at    bigint NOT NULL
);
INSERT INTO audit_anchored VALUES (0, decode(repeat('00', 32), 'hex'), 0);
`;

const nodes = `
CREATE TABLE node (
  id         text COLLATE "C" PRIMARY KEY,
  facts      text NOT NULL,
  expires_at bigint NOT NULL
);

CREATE TABLE letter (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  to_node    text COLLATE "C" NOT NULL,
  bytes      bigint NOT NULL,
  expires_at bigint NOT NULL,
  text       text NOT NULL
);
CREATE INDEX letter_by_node ON letter (to_node, id, bytes);
CREATE INDEX letter_by_expiry ON letter (expires_at);

CREATE TABLE lease (
  name     text COLLATE "C" PRIMARY KEY,
  node     text COLLATE "C" NOT NULL,
  fence    bigint NOT NULL,
  ended_at bigint
);

-- Proofs of the keys of the node that started last, by kind. A proof reveals nothing of its key.
CREATE TABLE key_proof (
  kind  text COLLATE "C" NOT NULL,
  proof text COLLATE "C" NOT NULL,
  PRIMARY KEY (kind, proof)
);
`;

const retainedCalls = `
CREATE TABLE retained_call (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  server_id  bigint NOT NULL REFERENCES server_data (id),
  at         bigint NOT NULL,
  expires_at bigint NOT NULL,
  tool       text COLLATE "C" NOT NULL,
  outcome    text COLLATE "C" NOT NULL,
  micros     bigint NOT NULL,
  principal  text,
  body       text NOT NULL
);
CREATE INDEX retained_call_by_time ON retained_call (server_id, at, id);
CREATE INDEX retained_call_by_expiry ON retained_call (expires_at);
`;

/**
 * The steps from an empty database to the current schema, in order. `sqlite/migrations.ts` describes the tables that
 * have no comment here. A step only adds, so that nodes of the versions before and after it can serve together; a later
 * version removes what is no longer needed.
 */
export const migrations: readonly string[] = [
  [clock, contentAndNames, recordsAndServerData, tenants, audit, nodes, retainedCalls].join("\n"),
];

/**
 * The number of steps that a Berth must know to work with these tables. To be increased by a step that removes
 * something, one version after the last version that needed it.
 */
export const MIN_READER = 1;
