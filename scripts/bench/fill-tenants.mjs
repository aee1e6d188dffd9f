import { Client } from "pg";

/**
 * A database with very many tenants, filled by SQL: each has the same servers, some variables and a host name, and their
 * history.
 */

const built = (path) => import(new URL(`../../dist/src/${path}`, import.meta.url).href);
const SERVERS = 3;

/** @param {number} index @returns {string} */
export const tenantName = (index) => `t${index}`;

/**
 * The database needs the tables of a store, and has no tenant but `default`.
 *
 * @param {string} url
 * @param {{ tenants: number, names: number }} size `names`: of each tenant, at least 10
 */
export async function fillTenants(url, { tenants, names }) {
  const { packDefinition } = await built("image/definition.js");
  const { derivedEntries, packCompiled } = await built("image/compiled.js");
  const { compileKey } = await built("discover/key.js");
  const { compileDefinition } = await built("discover/compile.js");
  const { jsonBlock, rawBlock } = await built("lib/cid.js");

  const texts = Array.from({ length: SERVERS }, (_, index) => [
    `server-${index}`,
    `/** Says hello. */\nexport function hello_${index}(name: string): string {\n  return "hello " + name;\n}\n`,
  ]);
  const [blocks, derived, given] = [[], [], []];
  const mcps = {};
  for (const [server, text] of texts) {
    const source = { entry: `${server}.ts`, files: { [`${server}.ts`]: text }, language: "typescript", server };
    const packed = packDefinition(server, { [server]: text });
    const record = jsonBlock({ definition: packed.cid, enabled: true });
    const compiled = packCompiled(await compileDefinition("compile", source));
    blocks.push(...packed.blocks, record);
    derived.push(...derivedEntries(compileKey(packed.cid, { language: "typescript", server }), packed.cid, compiled));
    given.push({ kind: "server", name: server, cid: record.cid });
    mcps[server] = { description: "One of very many" };
  }
  const value = rawBlock(`${JSON.stringify(mcps, null, 2)}\n`);
  const hidden = jsonBlock({ hidden: [] });
  blocks.push(value, hidden);
  given.push({ kind: "variable", name: "mcps", cid: value.cid });
  for (const [server] of texts) given.push({ kind: "visibility", name: server, cid: hidden.cid });
  for (let index = 0; given.length < names; index++)
    given.push({ kind: "variable", name: `variable-${index}`, cid: value.cid });

  const client = new Client({ connectionString: url });
  await client.connect();
  const of = (list, field) => list.map((each) => each[field]);
  try {
    await client.query("BEGIN");
    await client.query("SET LOCAL synchronous_commit = off");
    const all = [...blocks, ...of(derived, "block")];
    await client.query(
      "INSERT INTO content (cid, bytes) SELECT * FROM unnest($1::text[], $2::bytea[]) ON CONFLICT DO NOTHING",
      [of(all, "cid"), of(all, "bytes")],
    );
    await client.query(
      `INSERT INTO derived (key, content_id) SELECT key, id FROM unnest($1::text[], $2::text[]) AS each (key, cid)
       JOIN content USING (cid)`,
      [of(derived, "key"), of(of(derived, "block"), "cid")],
    );
    const each = `generate_series(0, ${tenants - 1}) AS number`;
    await client.query(`INSERT INTO tenant (name, created_at, limits) SELECT 't' || number, 1, '{}' FROM ${each}`);
    await client.query(
      `INSERT INTO tenant_host (host, tenant) SELECT 't' || number || '.example', 't' || number FROM ${each}`,
    );
    await client.query(
      `INSERT INTO tenant_content (tenant, content_id) SELECT 't' || number, id FROM ${each}, content
       WHERE cid = ANY ($1)`,
      [of(blocks, "cid")],
    );
    await client.query(`INSERT INTO tenant_derived (tenant, key) SELECT 't' || number, key FROM ${each}, derived`);
    const values = [of(given, "kind"), of(given, "name"), of(given, "cid")];
    const rows = `${each}, unnest($1::text[], $2::text[], $3::text[]) AS given (kind, name, cid)`;
    await client.query(
      `INSERT INTO name (tenant, kind, name, cid, changed_at) SELECT 't' || number, kind, name, cid, 1 FROM ${rows}`,
      values,
    );
    await client.query(
      `INSERT INTO name_change (id, tenant, kind, name, cid, changed_at, changed_by, writer)
       SELECT latest + row_number() OVER (), 't' || number, kind, name, cid, 1, 'bench', '' FROM name_change_counter, ${rows}`,
      values,
    );
    await client.query("UPDATE name_change_counter SET latest = (SELECT max(id) FROM name_change)");
    await client.query("COMMIT");
    await client.query("ANALYZE");
  } finally {
    await client.end();
  }
}
