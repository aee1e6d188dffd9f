import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { pino } from "pino";
import Database from "#better-sqlite3";
import { startBerth } from "../../src/compose/main.ts";
import { readConfig } from "../../src/config.ts";
import { jsonBlock } from "../../src/lib/cid.ts";
import { logOptions } from "../../src/lib/log.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { apiOf, type Api } from "../support/api.ts";
import { call, post, request, startTestBerth, withStatus } from "../support/berth.ts";
import { rows } from "../support/rows.ts";
import { testFolders } from "../support/store.ts";
import { addTenant } from "../support/tenants.ts";

const newFolder = testFolders("flipped-bits");
const folder = newFolder();

/** True to flip a bit in each content and name, instead of in a sample of them. */
const EACH = process.env["BERTH_TEST_EACH_FLIP"] !== undefined;
const SAY = "export const say = (): string => ";

interface Rotten {
  readonly url: string;
  readonly api: Api;
  readonly lines: readonly string[];
  /** True if all content matches its CID. */
  readonly isSound: (cid: string) => boolean;
  /** The answer of one of the servers. */
  readonly says: (server: string, base?: string) => Promise<unknown>;
}

/** Serves the data that `rot` has damaged. */
async function served(
  rot: (database: Database.Database) => void,
  look: (berth: Rotten) => Promise<void>,
): Promise<void> {
  const data = newFolder();
  cpSync(join(folder, "data"), data, { recursive: true });
  const file = join(data, DATABASE_FILE);
  const database = new Database(file);
  database.pragma("foreign_keys = OFF");
  rot(database);
  database.close();
  const lines: string[] = [];
  const log = pino(logOptions("warn", []), { write: (line: string) => void lines.push(line) });
  const env = { BERTH_PORT: "0", BERTH_DATA: data, BERTH_IMAGE_DIR: join(folder, "boot"), BERTH_LOG: "silent" };
  const berth = await startBerth(readConfig(env), log);
  try {
    const says = async (server: string, base = ""): Promise<unknown> => {
      const reply = await call(`${berth.url}${base}/mcp/${server}`, "say");
      return reply.content?.[0].text ?? reply.error?.message;
    };
    const isSound = (cid: string): boolean => {
      const reader = new Database(file, { readonly: true });
      const bytes = reader.prepare<[string], Buffer>("SELECT bytes FROM content WHERE cid = ?").pluck().get(cid)!;
      reader.close();
      return !bytes.includes(ROT);
    };
    await look({ url: berth.url, api: apiOf(berth), lines, isSound, says });
  } finally {
    await berth.close();
  }
}

/** The last byte of a content after a bit flip, which differs from all other bytes here. */
const ROT = Buffer.from([0xff]);

/** Flips bits of the last byte of a content. */
function rotContent(database: Database.Database, cid: string): void {
  const { changes } = database
    .prepare("UPDATE content SET bytes = CAST(substr(bytes, 1, length(bytes) - 1) || x'ff' AS BLOB) WHERE cid = ?")
    .run(cid);
  assert.equal(changes, 1, cid);
}

function cidOf(database: Database.Database, kind: string, name: string): string {
  const statement = database.prepare<[string, string], string>(
    "SELECT cid FROM name WHERE tenant = 'default' AND kind = ? AND name = ?",
  );
  return statement.pluck().get(kind, name)!;
}

function text(database: Database.Database, cid: string): string {
  return String(database.prepare<[string], Buffer>("SELECT bytes FROM content WHERE cid = ?").pluck().get(cid));
}

/** The page on which it can be saved again. */
const DAMAGED_TEXT = /Stored bytes do not match their CID: \w+; save it again, .*<textarea/s;

async function shown(url: string): Promise<string> {
  const response = await withStatus(200, fetch(url, { headers: { accept: "text/html" } }));
  return response.text();
}

interface ListedRelease {
  readonly release: string;
  readonly withdrawn: boolean;
}

/** Newest first. */
async function releasesOf(api: Api, server: string): Promise<readonly ListedRelease[]> {
  return (await api.send("GET", `/servers/${server}/releases`)).body.releases;
}

async function stateOf(api: Api, name: string): Promise<{ state: string; said: string } | undefined> {
  const { body } = await api.send("GET", "/servers");
  const found = body.servers.find((server: { name: string }) => server.name === name);
  return found && { state: found.state, said: JSON.stringify(found) };
}

describe("flipped bits", () => {
  before(async () => {
    const berth = await startTestBerth({ texts: { "one.ts": `${SAY}"one";`, "two.ts": `${SAY}"two";` } });
    const api = apiOf(berth);
    assert.equal((await api.put("/definitions/named", `${SAY}"named 1";`)).status, 201);
    assert.equal((await api.put("/definitions/named", `${SAY}"named 2";`)).status, 200);
    for (const number of [1, 2, 3]) await api.put("/definitions/kept", `${SAY}"kept ${number}";`);
    const withdrawn = `/servers/kept/releases/${(await releasesOf(api, "kept"))[2]!.release}/withdrawal`;
    assert.equal((await api.send("PUT", withdrawn)).status, 200);
    for (const server of ["one", "two", "named"]) await call(`${berth.url}/mcp/${server}`, "say");
    const data = join(berth.folder, "data");
    const store = await openSqliteStore({ dataDir: data });
    await addTenant(store, "acme", { servers: { own: `${SAY}"of acme";` }, limits: { callsPerTenant: 3 } });
    for (const id of ["tok_1", "tok_2"]) {
      const grant = { can: ["call"] };
      await store.tokens.add({ id, tenant: "default", hash: id, name: id, grant, expiresAt: null }, "test");
    }
    const hidden = jsonBlock({ hidden: ["nothing"] });
    const move = { kind: "visibility", name: "named", cid: hidden.cid, expected: null } as const;
    await store.change("default", { by: "server", put: [hidden], set: [move] });
    await store.close();
    const reader = new Database(join(data, DATABASE_FILE), { readonly: true });
    cpSync(join(berth.folder, "boot"), join(folder, "boot"), { recursive: true });
    cpSync(data, join(folder, "data"), { recursive: true, filter: (file) => !file.includes(DATABASE_FILE) });
    await reader.backup(join(folder, "data", DATABASE_FILE));
    reader.close();
    await berth.close();
  });

  it("in the record of a server disable that server until it is saved again", async () => {
    const rots: ((database: Database.Database) => void)[] = [
      (database) => rotContent(database, cidOf(database, "server", "named")),
      // Another letter in the CID that the name points to.
      (database) => void database.exec("UPDATE name SET cid = replace(cid, 'bag', 'bah') WHERE kind = 'server'"),
    ];
    for (const rot of rots) {
      await served(rot, async ({ api, says }) => {
        const { state, said } = (await stateOf(api, "named"))!;
        assert.equal(state, "refused");
        assert.match(
          said,
          /The stored record of the server \\"named\\" is damaged .*save its definition again, or restore/,
        );
        assert.match(String(await says("named")), /"named": The stored record of the server "named" is damaged/);
        assert.deepEqual([await says("one"), await says("two")], ["one", "two"]);
        const saved = await api.send("PUT", "/definitions/named", `${SAY}"named 3";`, { "If-None-Match": "*" });
        assert.equal(saved.status, 201, JSON.stringify(saved.body));
        assert.equal(await says("named"), "named 3");
      });
    }
  });

  it("in mcps disable all servers, whose grants are unknown, until it is saved again", async () => {
    let mcps = "";
    const rot = (database: Database.Database): void => {
      const cid = cidOf(database, "variable", "mcps");
      mcps = text(database, cid);
      rotContent(database, cid);
    };
    await served(rot, async ({ url, api, lines, says }) => {
      const { state, said } = (await stateOf(api, "named"))!;
      assert.equal(state, "refused");
      assert.match(said, /Its grants cannot be read: The stored variable mcps is damaged/);
      assert.match(String(await says("named")), /Its grants cannot be read/);
      assert.match(lines.join(""), /The stored variable mcps is damaged .*: save it again/);
      const page = await (await fetch(`${url}/mcp`, { headers: { Accept: "text/html" } })).text();
      assert.match(page, /The stored variable mcps is damaged/);
      assert.match(await shown(`${url}/variables/mcps`), DAMAGED_TEXT);
      assert.equal((await api.send("GET", "/variables/mcps")).status, 500);
      assert.equal((await api.send("GET", "/definitions/named/history")).status, 200);
      await withStatus(200, api.send("PUT", "/variables/mcps", mcps, { "If-Match": "*" }));
      assert.deepEqual([await says("one"), await says("two"), await says("named")], ["one", "two", "named 2"]);
    });
  });

  it("in an earlier value of mcps remove that version from the histories, and nothing else", async () => {
    const sql =
      "UPDATE name_change SET cid = replace(cid, 'baf', 'bag') WHERE id = (SELECT min(id) FROM name_change WHERE name = 'mcps')";
    const rot = (database: Database.Database) => void database.exec(sql);
    await served(rot, async ({ api, says }) => {
      assert.deepEqual([await says("one"), await says("named")], ["one", "named 2"]);
      for (const path of ["/definitions/one", "/definitions/named", "/variables/mcps", "/entries/one"]) {
        const { status, body } = await api.send("GET", `${path}/history`);
        assert.equal(status, 200, path);
        const arePresent = body.versions.every(({ cid }: { cid: unknown }) => cid !== null);
        assert.ok(arePresent, "no version is taken for a deletion");
      }
    });
  });

  it("in a definition disable its server until it is saved again", async () => {
    const rot = (database: Database.Database): void => {
      const { one } = JSON.parse(text(database, cidOf(database, "variable", "mcps")));
      rotContent(database, one.definition);
    };
    await served(rot, async ({ url, api, says }) => {
      const { state, said } = (await stateOf(api, "one"))!;
      assert.equal(state, "refused");
      assert.match(said, /Its stored content is damaged .*save its definition again/);
      assert.equal(await says("two"), "two");
      assert.match(await shown(`${url}/servers/one`), DAMAGED_TEXT);
      assert.equal((await fetch(`${url}/mcp/meta/one`, { headers: { Accept: "text/html" } })).status, 200);
      const saved = await api.send("PUT", "/definitions/one", `${SAY}"one";`, { "If-Match": "*" });
      assert.equal(saved.status, 200, JSON.stringify(saved.body));
      assert.equal(await says("one"), "one");
    });
  });

  it("in compiled results and bundles are repaired by compiling again", async () => {
    const derived = "SELECT cid FROM derived JOIN content ON id = content_id WHERE key NOT LIKE 'release-compiler:%'";
    const claimed = (database: Database.Database): { results: string[]; bundles: string[] } => {
      const manifest = JSON.parse(text(database, cidOf(database, "image", "applied")));
      const results = Object.values<string>(manifest.derived);
      return { results, bundles: results.map((cid) => JSON.parse(text(database, cid)).bundle) };
    };
    let cids: string[] = [];
    const rot = (database: Database.Database): void => {
      const { results, bundles } = claimed(database);
      cids = [...database.prepare<[], string>(derived).pluck().all(), ...results, ...bundles];
      for (const cid of cids) rotContent(database, cid);
    };
    await served(rot, async ({ api, says, isSound }) => {
      assert.ok(cids.length >= 6);
      assert.deepEqual([await says("one"), await says("two"), await says("named")], ["one", "two", "named 2"]);
      assert.equal((await stateOf(api, "one"))!.state, "ready");
      assert.ok(cids.filter((cid) => isSound(cid)).length >= 6);
    });
    const rotBundles = (database: Database.Database): void => {
      const { bundles } = claimed(database);
      cids = [...database.prepare<[], string>(`${derived} AND key = cid`).pluck().all(), ...bundles];
      for (const cid of cids) rotContent(database, cid);
    };
    await served(rotBundles, async ({ says, isSound }) => {
      assert.deepEqual([await says("one"), await says("two"), await says("named")], ["one", "two", "named 2"]);
      assert.ok(cids.filter((cid) => isSound(cid)).length >= 3);
    });
  });

  it("in releases and in the applied image leave every server available", async () => {
    const rot = (database: Database.Database): void => {
      for (const name of ["one", "named"]) {
        const release = cidOf(database, "release", name);
        rotContent(database, JSON.parse(text(database, release)).contract);
        rotContent(database, release);
      }
      // As an upgrade of the image does: the applied image is not the new one.
      const applied = cidOf(database, "image", "applied");
      rotContent(database, applied);
      const first = "SELECT cid FROM name_change WHERE id = (SELECT min(id) FROM name_change WHERE name = 'mcps')";
      const earlier = database.prepare<[], string>(first).pluck().get()!;
      database.prepare("UPDATE name SET cid = ? WHERE kind = 'image'").run(earlier);
      rotContent(database, earlier);
    };
    await served(rot, async ({ says }) => assert.equal(await says("named"), "named 2"));
  });

  it("in what a server hides disable that server until its definition is saved again", async () => {
    const rot = (database: Database.Database) => rotContent(database, cidOf(database, "visibility", "named"));
    const damaged = /The stored list of the tools and prompts that the server .*"named.*" hides is damaged/;
    await served(rot, async ({ api, says }) => {
      const { state, said } = (await stateOf(api, "named"))!;
      assert.equal(state, "refused");
      assert.match(said, damaged);
      assert.match(String(await says("named")), damaged);
      assert.deepEqual([await says("one"), await says("two")], ["one", "two"]);
      const saved = await api.put("/definitions/named", `${SAY}"named 2";`);
      assert.equal(saved.status, 200, JSON.stringify(saved.body));
      assert.equal(await says("named"), "named 2");
      assert.deepEqual((await api.send("GET", "/servers")).body.problems, []);
    });
  });

  it("in the withdrawn releases of a server withdraw all its earlier releases, until one is reinstated or withdrawn", async () => {
    const rot = (database: Database.Database) => rotContent(database, cidOf(database, "withdrawn", "kept"));
    const damaged =
      /The stored list of withdrawn releases of "kept" is damaged .*: all earlier releases count as withdrawn/;
    await served(rot, async ({ url, api, lines, says }) => {
      const [third, second, first] = (await releasesOf(api, "kept")).map(({ release }) => release);
      const [, named] = (await releasesOf(api, "named")).map(({ release }) => release);
      assert.deepEqual(await Promise.all(["one", "named", "kept"].map((server) => says(server))), [
        "one",
        "named 2",
        "kept 3",
      ]);
      assert.deepEqual([await says(`kept@${third}`), await says(`named@${named}`)], ["kept 3", "named 1"]);
      for (const release of [first, second]) assert.match(String(await says(`kept@${release}`)), damaged);
      assert.deepEqual(rows(await releasesOf(api, "kept"), "withdrawn"), ["false", "true", "true"]);
      const listed = await api.send("GET", "/servers");
      assert.match(listed.body.problems[0].message, damaged);
      assert.match(await (await fetch(`${url}/mcp`, { headers: { Accept: "text/html" } })).text(), /is damaged/);
      assert.equal(lines.filter((line) => line.includes("The stored list of withdrawn")).length, 1);

      await withStatus(503, api.send("POST", `/servers/kept/releases/${second}/restore`));
      const again = await api.put("/definitions/kept", `${SAY}"kept 2";`);
      assert.equal(again.status, 422, JSON.stringify(again.body));
      assert.match(JSON.stringify(again.body), /is damaged .*reinstate or withdraw one of them/);
      assert.equal((await api.put("/definitions/kept", `${SAY}"kept 4";`)).status, 200);
      assert.deepEqual([await says("kept")], ["kept 4"]);
      assert.match(String(await says(`kept@${third}`)), damaged);

      assert.equal((await api.send("DELETE", `/servers/kept/releases/${second}/withdrawal`)).status, 200);
      assert.equal(await says(`kept@${second}`), "kept 2");
      for (const release of [first, third]) assert.match(String(await says(`kept@${release}`)), /was withdrawn/);
      assert.deepEqual((await api.send("GET", "/servers")).body.problems, []);
    });
  });

  it("in any content, or in the CID of any name, leave every list and overview available", async () => {
    const reader = new Database(join(folder, "data", DATABASE_FILE), { readonly: true });
    // Compiled results are made again, which another test covers.
    const contents = reader
      .prepare<[], string>("SELECT cid FROM content WHERE id NOT IN (SELECT content_id FROM derived)")
      .pluck()
      .all();
    const names = reader.prepare<[], { tenant: string; kind: string; name: string }>(
      "SELECT tenant, kind, name FROM name",
    );
    const rots: (readonly [string, (database: Database.Database) => void])[] = [
      ...contents.map((cid) => [cid, (database: Database.Database) => rotContent(database, cid)] as const),
      ...names.all().map(({ tenant, kind, name }) => {
        const sql =
          "UPDATE name SET cid = replace(replace(cid, 'bag', 'bah'), 'baf', 'bag') WHERE (tenant, kind, name) = (?, ?, ?)";
        const rot = (database: Database.Database) => void database.prepare(sql).run(tenant, kind, name);
        return [`the name ${tenant}/${kind}/${name}`, rot] as const;
      }),
    ];
    reader.close();
    const sample = rots.filter((_, index) => EACH || index % 10 === 0);
    for (const [what, rot] of sample) {
      await served(rot, async ({ url, api }) => {
        for (const page of ["/mcp", "/servers", "/variables", "/secrets", "/audit"]) {
          const { status } = await fetch(url + page, { headers: { accept: "text/html" } });
          assert.equal(status, 200, `${page} with ${what}`);
        }
        for (const list of ["servers", "variables", "definitions", "entries", "secrets", "tokens"]) {
          assert.equal((await api.send("GET", `/${list}`)).status, 200, `${list} with ${what}`);
        }
        for (const method of ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]) {
          const { body } = await post(`${url}/mcp`, request(method), { "MCP-Protocol-Version": "2025-06-18" });
          assert.ok(body.result, `${method} with ${what}: ${JSON.stringify(body)}`);
        }
      });
    }
  });

  it("in a token revoke its rights, and in a tenant's limits disable that tenant alone", async () => {
    const rot = (database: Database.Database): void => {
      database.exec(`UPDATE token SET "grant" = replace("grant", '}', '~') WHERE id = 'tok_1'`);
      database.exec("UPDATE tenant SET limits = replace(limits, '{', ';') WHERE name = 'acme'");
    };
    await served(rot, async ({ url, api, says, lines }) => {
      assert.equal(await says("one"), "one");
      const { body } = await api.send("GET", "/tokens");
      const [damaged, other] = body.tokens.toSorted((a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1));
      assert.deepEqual([damaged.can, other.can], [[], ["call"]]);
      assert.match(damaged.name, /damaged: revoke it and create another/);
      const refused = await withStatus(503, fetch(`${url}/t/acme/api/servers`));
      assert.match(await refused.text(), /the stored limits of the tenant .*acme.* are damaged/);
      assert.match(lines.join(""), /set them again, or restore a backup/);
    });
    await served(
      (database) => void database.exec("UPDATE tenant SET limits = 'x' WHERE name = 'default'"),
      async ({ says }) => assert.deepEqual([await says("one"), await says("own", "/t/acme")], ["one", "of acme"]),
    );
  });
});
