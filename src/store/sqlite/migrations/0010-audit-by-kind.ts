export const sql = `
-- Whoever looks for a few records of one kind is not to walk past all the calls.
CREATE INDEX audit_by_kind ON audit (tenant, kind, at, number);
`;
