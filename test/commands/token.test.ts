import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readTokenRequest } from "../../src/access/token-request.ts";
import { isTokenText, newToken } from "../../src/access/token-text.ts";
import { exits, type Ran } from "../support/commands.ts";
import { berthInProcess } from "../support/in-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

describe("berth token", () => {
  const data = join(temporaryFolder(), "data");
  const berth = (...args: string[]): Promise<Ran> => berthInProcess(["token", ...args], { env: { BERTH_DATA: data } });

  it("prints a token once, stores only its hash, and lists what it permits", async () => {
    const made = await exits(0, berth("create", "--name", "laptop", "--server", "echo", "--expires", "30d"));
    const token = made.stdout.trim();
    assert.match(token, /^berth_[0-9A-Za-z]{49}$/);
    assert.ok(!made.stderr.includes(token));
    const listed = await berth("list");
    assert.match(listed.stdout, /^[0-9a-f]{10} {2}made \S+Z {2}call,read on echo, until \S+Z {2}laptop\n$/);
    const secret = token.slice("berth_".length);
    for (const file of readdirSync(data)) assert.ok(!readFileSync(join(data, file)).includes(secret), file);
  });

  it("revokes by id, and reports an id that has nothing to revoke", async () => {
    const { id } = JSON.parse((await berth("create", "--can", "admin", "--json")).stdout) as { id: string };
    assert.equal((await berth("revoke", id)).code, 0);
    assert.match((await berth("list")).stdout, new RegExp(`^${id}  made \\S+  revoked `, "m"));
    for (const wrong of [id, "ffffffffff"]) {
      const again = await exits(2, berth("revoke", wrong));
      assert.match(again.stderr, /No such token/);
    }
  });

  it("reports every problem of a request", async () => {
    const { stderr } = await exits(2, berth("create", "--can", "fly", "--tool", "x", "--expires", "soon"));
    assert.match(
      stderr,
      /"can" must list at least one of call, read, edit, programs, admin; .*"expires" must be a time/,
    );
    const elsewhere = await exits(2, berth("create", "--tenant", "nobody"));
    assert.match(elsewhere.stderr, /No such tenant/);
  });

  it("refuses a restriction that would restrict nothing", () => {
    for (const can of ["edit", "admin"]) {
      assert.throws(() => readTokenRequest({ can: ["call", can], tools: ["x"] }), /"tools"/);
    }
    assert.throws(() => readTokenRequest({ can: ["call"], servers: [] }), /"servers"/);
    assert.throws(() => readTokenRequest({ can: ["call"], server: ["echo"] }), /no field "server"/);
    const { grant, expiresAt } = readTokenRequest({ can: ["call"], servers: ["echo"], expires: "12h" }, 0);
    assert.deepEqual([grant, expiresAt], [{ can: ["call"], servers: ["echo"] }, 43_200_000]);
  });

  it("recognises a token by its prefix and its checksum", () => {
    const token = newToken();
    assert.ok(isTokenText(token));
    assert.notEqual(newToken(), token);
    for (let at = "berth_".length; at < token.length; at++) {
      const other = token[at] === "a" ? "b" : "a";
      assert.ok(!isTokenText(token.slice(0, at) + other + token.slice(at + 1)), `character ${at}`);
    }
    assert.ok(!isTokenText(token.slice(0, -1)));
  });
});
