export const sql = `
-- Who holds a content is asked when a tenant is deleted.
CREATE INDEX tenant_content_by_content ON tenant_content (content_id);
CREATE INDEX derived_by_content ON derived (content_id);
CREATE INDEX name_by_cid ON name (cid);
`;
