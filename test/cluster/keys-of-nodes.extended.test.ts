import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { proofsOf } from "../../src/secrets/keys.ts";
import { PostgresDatabase } from "../../src/store/postgres/database.ts";
import { admitKeys } from "../../src/store/postgres/key-proofs.ts";
import { upgradeDatabase } from "../../src/store/postgres/upgrade.ts";
import { berth, exits, type Ran } from "../support/commands.ts";
import { freePort } from "../support/free-port.ts";
import { keysOfAll, startPostgres } from "../support/postgres.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { closeAfter, inSuite, temporaryFolder } from "../support/suite.ts";

const PASSWORD = "swordfish-of-this-test";

describe("nodes on one database", () => {
  const postgres = inSuite(startPostgres);
  const folder = temporaryFolder();

  /** The address of an empty database, with a password. */
  async function address(): Promise<string> {
    const url = new URL(await postgres.database());
    url.password = PASSWORD;
    return url.href;
  }

  const run = (args: string[], env: Record<string, string>): Promise<Ran> =>
    berth(args, { env: { BERTH_DATA: join(folder, "data"), BERTH_PORT: "0", ...env } });

  it("have a key in common with the one before: so keys change by steps, and one that was given up lets nobody in", async (t) => {
    const database = closeAfter(t, new PostgresDatabase(await address()));
    await upgradeDatabase(database);
    const keys = Object.fromEntries(["a", "b", "c"].map((name) => [name, randomBytes(32)]));
    const admit = (...names: string[]) => admitKeys(database, proofsOf({ seal: names.map((name) => keys[name]!) }));
    const refused = { code: "config_invalid", message: /none of the keys in BERTH_SEAL_KEY is known to the nodes/ };
    await admit("a");
    await assert.rejects(admit("b"), refused);
    await admit("a", "b");
    await admit("a");
    await admit("b", "a");
    await admit("b");
    await assert.rejects(admit("a"), refused);
    await assert.rejects(admit("c", "a"), refused);
    const kept = JSON.stringify(await database.run("SELECT * FROM key_proof"));
    for (const key of Object.values(keys))
      for (const form of ["hex", "base64", "base64url"] as const) assert.ok(!kept.includes(key.toString(form)));
    await Promise.all(Array.from({ length: 8 }, (_, index) => admit("b", index % 2 === 0 ? "a" : "c")));
    await admit("b");
    const command = (...names: string[]) =>
      admitKeys(database, proofsOf({ seal: names.map((name) => keys[name]!) }), false);
    await assert.rejects(command("a"), refused);
    await command("a", "b");
    await assert.rejects(admit("a"), refused, "the keys of a command do not count for nodes");
  });

  it("are refused with other keys, without keys, and with none that were asked for; nothing tells a key or the password", async () => {
    const database = { BERTH_DATABASE: await address() };
    const [keys, others] = [keysOfAll(), keysOfAll()];
    const own = { BERTH_PORT: "0", BERTH_DATA: join(folder, "data") };
    const first = await ServeProcess.start([], { ...database, ...keys, ...own });
    await first.end("SIGTERM");
    assert.ok(!readdirSync(folder).includes("data"), "nothing is kept in a folder");
    const other = { ...database, BERTH_SECRET_KEY: others.BERTH_SECRET_KEY };
    const sealing = await exits(2, berth(["secret", "set", "KEY"], { input: "x", env: other }));
    assert.match(sealing.stderr, /none of the keys in BERTH_SECRET_KEY/);
    const nowhere = `postgres://berth:${PASSWORD}@127.0.0.1:${await freePort()}/x`;
    for (const [env, said] of [
      [{ ...database, ...others }, /none of the keys in BERTH_SEAL_KEY/],
      [{ ...database, ...keys, BERTH_SECRET_KEY: others.BERTH_SECRET_KEY }, /none of the keys in BERTH_SECRET_KEY/],
      [database, /BERTH_DATABASE needs BERTH_SEAL_KEY_FILE .* and BERTH_SECRET_KEY_FILE/],
      [{ ...keys, BERTH_DATABASE: `${database.BERTH_DATABASE}x` }, /BERTH_DATABASE/],
      [{ ...keys, BERTH_DATABASE: nowhere }, /cannot be reached/],
    ] as const) {
      const { stdout, stderr } = await exits(2, run(["serve"], env));
      assert.match(stderr, said);
      for (const secret of [PASSWORD, ...Object.values(keys), ...Object.values(others)])
        assert.ok(!`${stdout}${stderr}`.includes(secret), secret);
    }
  });

  it("are served by the commands that serve a data folder, which say what is different", async () => {
    const env = { BERTH_DATABASE: await address() };
    const none = await run(["token", "list"], env);
    assert.deepEqual([none.code, /no store in the database/.test(none.stderr)], [2, true], none.stderr);
    const made = await run(["token", "create", "--can", "call"], env);
    assert.deepEqual([made.code, /There was no store in the database/.test(made.stderr)], [0, true], made.stderr);
    assert.match((await run(["token", "list"], env)).stdout, /call/);
    assert.equal((await run(["tenant", "create", "acme"], env)).code, 0);
    assert.match((await run(["tenant", "list"], env)).stdout, /acme/);
    const there = { ...env, BERTH_DATA: join(folder, "data") };
    const unsealed = await berth(["secret", "set", "KEY"], { input: "x", env: there });
    assert.match(unsealed.stderr, /BERTH_DATABASE needs BERTH_SECRET_KEY_FILE/);
    const sealing = { ...there, BERTH_SECRET_KEY: keysOfAll().BERTH_SECRET_KEY };
    assert.equal((await berth(["secret", "set", "KEY"], { input: "a secret value", env: sealing })).code, 0);
    assert.equal((await run(["audit", "verify"], env)).code, 0);
    assert.equal((await run(["tenant", "delete", "acme", "--yes"], env)).code, 0);
    const backup = await exits(2, run(["backup"], env));
    assert.match(backup.stderr, /contents, \d+ bytes, all of them verified/);
    assert.match(backup.stderr, /fsync is off/);
    assert.match(backup.stderr, /pg_dump --format=custom/);
    const restore = await run(["restore", join(folder, "copy")], env);
    assert.deepEqual([restore.code, /pg_restore/.test(restore.stderr)], [2, true], restore.stderr);
    assert.deepEqual(readdirSync(folder), [], "no data folder was made, and no copy");
    assert.ok(![none, made, backup, restore].some(({ stderr }) => stderr.includes(PASSWORD)));
  });
});
