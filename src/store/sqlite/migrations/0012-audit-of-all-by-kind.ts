export const sql = `
-- The same for whoever looks for one kind in the log of all tenants.
CREATE INDEX audit_of_all_by_kind ON audit (kind, at, number);
`;
