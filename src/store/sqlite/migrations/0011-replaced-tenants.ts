export const sql = `
-- When an import has replaced all that a tenant had; NULL for never. Before, it counted as made anew then.
ALTER TABLE tenant ADD COLUMN replaced_at INTEGER;
`;
