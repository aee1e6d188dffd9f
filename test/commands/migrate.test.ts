import assert from "node:assert/strict";
import { execFileSync, type ChildProcess } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { makeImage, withStatus } from "../support/berth.ts";
import { berth as berthProcess, exits, type Ran } from "../support/commands.ts";
import { berthInProcess as berth } from "../support/in-process.ts";
import { LegacyClient } from "../support/legacy-client.ts";
import { openWhere } from "../support/open-where.ts";
import { openWay } from "../support/postgres-way.ts";
import { keysOfAll, queryAt, startPostgres } from "../support/postgres.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { setVariable, testFolders } from "../support/store.ts";
import { inSuite } from "../support/suite.ts";

const newFolder = testFolders("migrate");
const postgres = inSuite(startPostgres);

async function fill(where: string): Promise<void> {
  const store = await openWhere(where);
  for (let at = 0; at < 20; at++) await store.change("default", setVariable(`value ${at}`, `name-${at}`));
  await store.close();
}

async function namesIn(where: string): Promise<number> {
  const store = await openWhere(where);
  const names = await store.names("default", "variable");
  await store.close();
  return names.length;
}

/** Runs `berth migrate` and kills it as soon as it sends a text that matches. */
async function killedAt(text: RegExp, database: string, args: readonly string[]): Promise<Ran> {
  let child: ChildProcess | undefined;
  const way = await openWay(database, (sent) => {
    if (text.test(sent)) child?.kill("SIGKILL");
    return undefined;
  });
  try {
    return await berthProcess(["migrate", ...args], {
      env: { BERTH_DATABASE: way.url },
      during: (each) => (child = each),
    });
  } finally {
    await way.close();
  }
}

describe("berth migrate", () => {
  it("takes a served folder to Postgres and back: sessions go on, and heads of the audit log that were kept hold", async () => {
    const home = newFolder();
    const env = await makeImage(home, { texts: { "echo.ts": 'export const echo = (): string => "hello";\n' } });
    const [data, back, database] = [join(home, "data"), join(home, "back"), await postgres.database()];
    let client: LegacyClient | undefined;
    const serve = async (more: Record<string, string>): Promise<void> => {
      const node = await ServeProcess.start([], { ...env, ...more });
      try {
        const session = client?.session;
        client = new LegacyClient(`${node.url}/mcp/echo`, "2025-11-25");
        if (session === undefined) await client.initialize();
        else client.session = session;
        await withStatus(200, client.call("echo"));
      } finally {
        await node.end("SIGTERM");
      }
    };
    const verified = async (more: Record<string, string>, head: string | undefined): Promise<string> => {
      const args = head === undefined ? [] : ["--head", head];
      const { stdout } = await exits(0, berth(["audit", "verify", ...args], { env: { ...env, ...more } }));
      assert.match(stdout, /^\d+:\S+\n$/);
      return stdout.trim();
    };

    await serve({});
    await exits(0, berth(["secret", "set", "TOKEN", "--data", data], { input: "a long value" }));
    const first = await verified({}, undefined);

    const there = await exits(0, berth(["migrate", "--from", data], { env: { BERTH_DATABASE: database } }));
    assert.match(
      there.stderr,
      /The database now holds what .* held: \d+ contents of \d+ bytes, \d+ rows in all, counted/,
    );
    const told = /BERTH_SEAL_KEY="\$\((.*)\)"/.exec(there.stderr)?.[1];
    const sealKey = execFileSync("sh", ["-c", told!], { encoding: "utf8" });
    const secretFile = /a copy of (\S+) as BERTH_SECRET_KEY_FILE/.exec(there.stderr)?.[1];
    const onPostgres = { BERTH_DATABASE: database, BERTH_SEAL_KEY: sealKey, BERTH_SECRET_KEY_FILE: secretFile! };
    await serve(onPostgres);
    const second = await verified(onPostgres, first);

    const returned = await exits(0, berth(["migrate", "--to", back], { env: onPostgres }));
    assert.match(
      returned.stderr,
      /Serve it with --data .* and the keys of the nodes, BERTH_SEAL_KEY and BERTH_SECRET_KEY/,
    );
    const onBack = { BERTH_DATA: back, BERTH_SEAL_KEY: sealKey, BERTH_SECRET_KEY_FILE: secretFile! };
    await serve(onBack);
    await verified(onBack, first);
    await verified(onBack, second);
  });

  it("killed while it copies into Postgres leaves the database empty and the folder as it was, and works the next time", async () => {
    const [data, database] = [newFolder(), await postgres.database()];
    await fill(data);
    const { code, stderr } = await killedAt(/INSERT INTO audit /, database, ["--from", data]);
    assert.equal(code, "SIGKILL", stderr);
    assert.deepEqual(await queryAt(database, "SELECT FROM pg_tables WHERE schemaname = 'public'"), []);
    assert.equal(await namesIn(data), 20);
    await exits(0, berth(["migrate", "--from", data], { env: { BERTH_DATABASE: database } }));
    assert.equal(await namesIn(database), 20);
  });

  it("killed while it copies into a folder leaves nothing that is served, and works the next time", async () => {
    const [data, database] = [newFolder(), await postgres.database()];
    await fill(database);
    const { code, stderr } = await killedAt(/DECLARE long_audit /, database, ["--to", data]);
    assert.equal(code, "SIGKILL", stderr);
    assert.ok(readdirSync(data).length > 0 && !readdirSync(data).includes("berth.sqlite"), String(readdirSync(data)));
    const served = await exits(2, berth(["serve", "--data", data, "--port", "0"]));
    assert.match(served.stderr, /exists? without berth\.sqlite/);
    await exits(0, berth(["migrate", "--to", data], { env: { BERTH_DATABASE: database } }));
    assert.equal(await namesIn(data), 20);
    assert.equal(await namesIn(database), 20);
  });

  it("says what is missing or too much", async () => {
    const refusals: [string[], Record<string, string>, RegExp][] = [
      [[], {}, /berth migrate is for a store in Postgres, which BERTH_DATABASE names/],
      [["--from", "a", "--to", "b"], { BERTH_DATABASE: postgres.url }, /leave one out/],
      [["--from", newFolder()], { BERTH_DATABASE: postgres.url }, /there is no store in /],
      [
        ["--to", newFolder()],
        { BERTH_DATABASE: await postgres.database(), ...keysOfAll() },
        /there is no store in the database/,
      ],
    ];
    for (const [args, env, message] of refusals) {
      const { stderr } = await exits(2, berth(["migrate", ...args], { env }));
      assert.match(stderr, message);
    }
  });
});
