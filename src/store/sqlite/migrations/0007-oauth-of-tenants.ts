export const sql = `
-- JSON: the authorization server whose access tokens the tenant takes; NULL for none.
ALTER TABLE tenant ADD COLUMN oauth TEXT;
`;
