/** Milliseconds since the epoch by the clock of the database, which all nodes share. */
const clock = `
CREATE FUNCTION berth_now() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;
`;

const contentAndNames = `
CREATE TABLE content (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  cid        text COLLATE "C" NOT NULL UNIQUE,
  bytes      bytea NOT NULL,
  -- It names no other content, as far as that is known: nobody has to read it again to find out.
  is_leaf    boolean NOT NULL DEFAULT false,
  is_package boolean NOT NULL DEFAULT false
);
-- A content is read whole, and most are compressed or short.
ALTER TABLE content ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- The parts of a content that is too long for one statement, until the transaction that writes them puts them together.
CREATE UNLOGGED TABLE content_part (
  cid   text COLLATE "C" NOT NULL,
  start bigint NOT NULL,
  bytes bytea NOT NULL
);
ALTER TABLE content_part ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Bytes are shared; who may read them is not.
CREATE TABLE tenant_content (
  tenant     text COLLATE "C" NOT NULL,
  content_id bigint NOT NULL REFERENCES content (id),
  PRIMARY KEY (tenant, content_id)
);
CREATE INDEX tenant_content_by_content ON tenant_content (content_id);

-- Content that nothing of its tenant refers to, and since when. Once the claim is gone, too, the tenant cannot read it.
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

-- Changes are numbered in the order of their commits, without a gap: by the counter below, whose row each change locks
-- until it is over. Those that an import brings along have numbers below zero, and room below them for those of SQLite's
-- imports. writer: who had the store open, so that it knows its own.
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

-- What a derived result was made of. A tenant that lets go of all that lets go of the result.
CREATE TABLE derived_source (
  key text COLLATE "C" NOT NULL REFERENCES derived (key) ON DELETE CASCADE,
  cid text COLLATE "C" NOT NULL,
  PRIMARY KEY (key, cid)
);

-- Who has used a derived result: what only one tenant has used goes with it.
CREATE TABLE tenant_derived (
  tenant text COLLATE "C" NOT NULL,
  key    text COLLATE "C" NOT NULL REFERENCES derived (key),
  PRIMARY KEY (tenant, key)
);
CREATE INDEX tenant_derived_by_key ON tenant_derived (key);
`;

const recordsAndState = `
-- What changes often and is not kept for ever, such as tasks: no content, no history.
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

-- What servers keep. Keys hang on a row of their server, so that all of them change hands or are left behind at once.
CREATE TABLE state_server (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant  text COLLATE "C" NOT NULL,
  server  text COLLATE "C" NOT NULL,
  -- The sums of its keys; and the highest version that any of them ever had.
  keys    bigint NOT NULL,
  bytes   bigint NOT NULL,
  version bigint NOT NULL,
  UNIQUE (tenant, server)
);

CREATE TABLE state (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  server_id  bigint NOT NULL REFERENCES state_server (id),
  key        text COLLATE "C" NOT NULL,
  value      bytea NOT NULL,
  is_json    boolean NOT NULL,
  version    bigint NOT NULL,
  changed_at bigint NOT NULL,
  expires_at bigint,
  UNIQUE (server_id, key)
);
CREATE INDEX state_by_expiry ON state (expires_at) WHERE expires_at IS NOT NULL;
`;

const tenants = `
CREATE TABLE tenant (
  name         text COLLATE "C" PRIMARY KEY,
  created_at   bigint NOT NULL,
  replaced_at  bigint,
  suspended_at bigint,
  -- JSON, as it was written: an object of limits by their names, and the authorization server or NULL.
  limits       text NOT NULL,
  oauth        text
);
INSERT INTO tenant (name, created_at, limits) VALUES ('default', berth_now(), '{}');

CREATE TABLE tenant_host (
  host   text COLLATE "C" PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL REFERENCES tenant (name) ON DELETE CASCADE
);
CREATE INDEX tenant_host_by_tenant ON tenant_host (tenant);

-- What is kept of a token is its hash: who reads this table can use none of them.
CREATE TABLE token (
  id         text COLLATE "C" PRIMARY KEY,
  tenant     text COLLATE "C" NOT NULL REFERENCES tenant (name) ON DELETE CASCADE,
  hash       text COLLATE "C" NOT NULL UNIQUE,
  name       text NOT NULL,
  -- JSON: what it permits.
  "grant"    text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
);
CREATE INDEX token_by_tenant ON token (tenant, created_at, id);

-- The imports that are under way: what they have written stands under an alias of their id.
CREATE TABLE staging (
  id         text COLLATE "C" PRIMARY KEY,
  expires_at bigint NOT NULL
);

-- Sealed values, all with one key at a time. No content: what is replaced or deleted is gone, and no CID tells of it.
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
-- The order of arrival spans all chains; the place is that in the chain of the tenant, or for an anchor in the chain of
-- anchors. Retention sets a body to NULL; its digest stays in its link.
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

-- The end of each tenant's chain, and of the service's (''), the place up to which an anchor holds it, and how much of
-- its bodies is kept that retention may remove, of calls and of all else.
CREATE TABLE audit_chain (
  tenant      text COLLATE "C" PRIMARY KEY,
  place       bigint NOT NULL,
  hash        bytea NOT NULL,
  at          bigint NOT NULL,
  anchored    bigint NOT NULL,
  call_bytes  bigint NOT NULL,
  other_bytes bigint NOT NULL
);

-- One row: the end of the chain of anchors.
CREATE TABLE audit_anchored (
  place bigint NOT NULL,
  hash  bytea NOT NULL,
  at    bigint NOT NULL
);
INSERT INTO audit_anchored VALUES (0, decode(repeat('00', 32), 'hex'), 0);
`;

const nodes = `
-- The processes that serve from here, what they tell each other, and what only one of them does.
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
  -- NULL while its node holds it.
  ended_at bigint
);

-- What proves the keys of the node that started last, by their kind, and tells nothing of them.
CREATE TABLE key_proof (
  kind  text COLLATE "C" NOT NULL,
  proof text COLLATE "C" NOT NULL,
  PRIMARY KEY (kind, proof)
);
`;

const keptCalls = `
-- The calls that servers keep. They hang on a row of their server, so that all of them are left behind at once.
CREATE TABLE kept_call_server (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  server text COLLATE "C" NOT NULL,
  -- The sums of its calls.
  calls  bigint NOT NULL,
  bytes  bigint NOT NULL,
  UNIQUE (tenant, server)
);

CREATE TABLE kept_call (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  server_id  bigint NOT NULL REFERENCES kept_call_server (id),
  at         bigint NOT NULL,
  expires_at bigint NOT NULL,
  tool       text COLLATE "C" NOT NULL,
  outcome    text COLLATE "C" NOT NULL,
  micros     bigint NOT NULL,
  principal  text,
  -- JSON: what was said in it.
  body       text NOT NULL
);
CREATE INDEX kept_call_by_time ON kept_call (server_id, at, id);
CREATE INDEX kept_call_by_expiry ON kept_call (expires_at);
`;

/**
 * The steps from an empty database to the current schema, in order, as in `sqlite/migrations.ts`. A step only adds, so
 * that nodes before and after it serve together; a later version removes what it makes unneeded.
 */
export const migrations: readonly string[] = [
  [clock, contentAndNames, recordsAndState, tenants, audit, nodes, keptCalls].join("\n"),
];

/** Databases of development versions have versions up to this one. Other steps created them, so they are refused. */
export const UNRELEASED = 2;

/**
 * The version that a Berth must know to work with these tables. It is raised with a step that removes what earlier
 * versions need, a version after the last one that needed it.
 */
export const MIN_READER = 3;
