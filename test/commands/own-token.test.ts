import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import type { Ran } from "../support/commands.ts";
import { berthInProcess } from "../support/in-process.ts";
import { berthInSuite, serve } from "../support/suite.ts";
import { makeToken } from "../support/tokens.ts";

const HELLO = `/** Greets. */\nexport function greet(name: string): string { return "Hello, " + name + "!"; }\n`;

describe("the token of commands that talk to a Berth", () => {
  const berth = berthInSuite({ texts: { "hello.ts": HELLO }, env: { BERTH_ACCESS: "required" } });
  let token: string;
  before(async () => void ({ token } = await makeToken(berth, { can: ["call", "read"] })));

  /** Checks that no output of a command ever holds a token. */
  const run = async (args: readonly string[], env: Record<string, string> = {}, input = ""): Promise<Ran> => {
    const ran = await berthInProcess(args, { env: { BERTH_URL: berth.url, ...env }, input });
    for (const secret of [token, env["BERTH_TOKEN"] ?? token]) {
      assert.ok(!`${ran.stdout}${ran.stderr}`.includes(secret), `${args.join(" ")} prints a token`);
    }
    return ran;
  };
  const greet = (env: Record<string, string>, more: readonly string[] = []): Promise<Ran> =>
    run(["call", ...more, "hello.greet", "--name", "Ada"], env);

  it("comes from the environment or from a file", async () => {
    const without = await greet({});
    assert.deepEqual([without.code, without.stdout], [2, ""]);
    assert.match(without.stderr, /A token is required here/);
    assert.match((await greet({ BERTH_TOKEN: token })).stdout, /Hello, Ada!/);
    const file = join(berth.folder, "token");
    await writeFile(file, `${token}\n`);
    assert.match((await greet({ BERTH_TOKEN_FILE: file })).stdout, /Hello, Ada!/);
    assert.match((await greet({ BERTH_URL: "", BERTH_TOKEN: token }, ["--url", berth.url])).stdout, /Hello, Ada!/);
  });

  it("is never shown when it is wrong", async () => {
    const other = `${token.slice(0, -1)}${token.endsWith("0") ? "1" : "0"}`;
    assert.match((await greet({ BERTH_TOKEN: other })).stderr, /This token is not valid here/);
    assert.match((await greet({ BERTH_TOKEN: `${token} ${token}` })).stderr, /BERTH_TOKEN must be one token/);
    assert.match((await greet({ BERTH_TOKEN: token, BERTH_TOKEN_FILE: "x" })).stderr, /both give the token/);
    assert.match((await greet({ BERTH_TOKEN_FILE: join(berth.folder, "none") })).stderr, /cannot be read: ENOENT/);
  });

  it("is not sent over plain HTTP", async () => {
    const refused = await greet({ BERTH_TOKEN: token }, ["--url", "http://mcp.example.com"]);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /would be sent to http:\/\/mcp\.example\.com for everybody to read; use https/);
  });

  it("is sent to the user's own Berth by a launcher URI, and to no other server", async (t) => {
    const own = `mcp+${berth.url}/mcp/hello`;
    assert.equal((await run(["inspect", own])).code === 0, false);
    assert.match((await run(["inspect", own], { BERTH_TOKEN: token })).stdout, /greet/);
    assert.match((await run(["cat", `${own}?tool=greet&name=Ada`], { BERTH_TOKEN: token })).stdout, /Hello, Ada!/);

    const seen: (string | undefined)[] = [];
    const other = await serve(t, ({ headers }, response) => {
      seen.push(headers.authorization);
      response.writeHead(401).end(JSON.stringify(headers));
    });
    const uri = `mcp+${other}/mcp`;
    await run(["inspect", uri], { BERTH_TOKEN: token });
    assert.ok(seen.length > 0 && seen.every((header) => header === undefined), "it was sent to somebody else");
    // Users who write the token themselves may send it anywhere; replies are shown without it.
    await run(["inspect", `${uri}?header.Authorization=Bearer%20\${BERTH_TOKEN}`], { BERTH_TOKEN: token });
    assert.equal(seen.at(-1), `Bearer ${token}`);
  });
});
