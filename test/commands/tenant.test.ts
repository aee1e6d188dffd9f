import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Ran } from "../support/commands.ts";
import { berthInProcess } from "../support/in-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

describe("berth tenant", () => {
  const data = temporaryFolder();
  const tenant = (...args: string[]): Promise<Ran> => berthInProcess(["tenant", ...args, "--data", data]);

  it("creates, limits, suspends, lists and deletes tenants", async () => {
    const made = await tenant("create", "acme", "--host", "acme.example");
    assert.deepEqual([made.code, made.stdout], [0, ""], made.stderr);
    assert.match(made.stderr, /The tenant acme is served at \/t\/acme\/mcp and the host acme\.example\./);
    assert.match((await tenant("create", "acme")).stderr, /A tenant of that name exists already/);

    const refused = await tenant("create", "small", "--limit", "calls=3", "--limit", "stream=2");
    assert.match(refused.stderr, /there is no limit "stream"; there are requests, /);
    assert.equal((await tenant("create", "small", "--limit", "calls=3", "--limit", "streams=2")).code, 0);
    const own = await tenant("limit", "small");
    assert.match(own.stdout, /^calls {2}3$/m);
    assert.match(own.stdout, /^streams {2}2$/m);

    const limited = await tenant("limit", "acme", "requestsPerSecond=50");
    assert.match(limited.stdout, /^requestsPerSecond {2}50$/m);
    assert.match(limited.stdout, /^calls {2}256 {2}\(default\)$/m);
    assert.match((await tenant("limit", "acme", "calls=many")).stderr, /"calls" must be a whole number, not "many"/);
    const unset = await tenant("limit", "acme", "requestsPerSecond=");
    assert.match(unset.stdout, /^requestsPerSecond {2}0 {2}\(default\)$/m);
    assert.match((await tenant("limit", "nobody")).stderr, /No such tenant: "nobody"/);

    assert.equal((await tenant("suspend", "acme")).code, 0);
    const all = JSON.parse((await tenant("list", "--json")).stdout) as { name: string; suspendedAt: unknown }[];
    const listed = all.find(({ name }) => name === "acme");
    assert.equal(typeof listed!.suspendedAt, "number");

    const asked = await tenant("delete", "acme");
    assert.equal(asked.code, 1);
    assert.match(asked.stderr, /--yes deletes all that the tenant has/);
    assert.equal((await tenant("delete", "acme", "--yes")).code, 0);
    assert.doesNotMatch((await tenant("list")).stdout, /acme/);
  });

  it("sets, shows and removes the issuer whose access tokens a tenant accepts", async () => {
    assert.equal((await tenant("create", "green")).code, 0);
    const oauth = (...settings: string[]) => tenant("oauth", "green", ...settings);
    assert.match((await oauth()).stderr, /has no authorization server of its own/);
    const bad = await oauth("issuer=http://login.example", 'scopes={"staff": {"can": ["fly"]}}', "colour=red");
    assert.equal(bad.code, 2);
    for (const problem of [/must be an https URL/, /the scope "staff" must say/, /there is no setting "colour"/]) {
      assert.match(bad.stderr, problem);
    }
    const set = await oauth("issuer=https://login.example", "audience=urn:green", 'scopes={"staff":{"can":["call"]}}');
    const shown = 'issuer  https://login.example\naudience  urn:green\nscopes  {"staff":{"can":["call"]}}\n';
    assert.deepEqual([set.code, set.stdout, (await oauth()).stdout], [0, shown, shown], set.stderr);
    assert.equal((await tenant("create", "blue")).code, 0);
    const same = await tenant("oauth", "blue", "issuer=https://login.example", "audience=urn:green");
    assert.match(same.stderr, /"green" already takes this issuer's tokens/);
    assert.equal((await oauth("audience=", "scopes=")).stdout, "issuer  https://login.example\n");
    assert.deepEqual([(await oauth("issuer=")).stdout, (await oauth()).stdout], ["", ""]);
  });
});
