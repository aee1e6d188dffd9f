export const sql = `
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
