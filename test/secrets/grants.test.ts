import assert from "node:assert/strict";
import { it } from "node:test";
import { pino } from "pino";
import type { GivenToUpstream } from "../../src/host/upstreams/hosting.ts";
import { Hosting } from "../../src/host/upstreams/hosting.ts";
import { BerthError } from "../../src/lib/errors.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { Grants, type ReadableSecrets } from "../../src/secrets/grants.ts";
import type { Upstream } from "../../src/upstream/upstream.ts";
import { launchOf } from "../support/upstreams.ts";

it("an upstream whose secret has changed never starts with its last value, though the store fails", async () => {
  const log = pino({ level: "silent" });
  let read: ReadableSecrets["read"] = async () => "before";
  const secrets = { list: async () => [], read: (...of: Parameters<ReadableSecrets["read"]>) => read(...of) };
  const grants = new Grants(secrets, log);
  let given: GivenToUpstream | undefined;
  let renewals = 0;
  const hosting = new Hosting({
    open: (_launch, _listener, grant) => {
      given = grant;
      return { health: {}, renew: () => void renewals++ } as Upstream;
    },
    limitsOf: () => ({ upstreamProcesses: 1, processStartsPerMinute: 0 }),
    limits: defaultLimits,
    log,
  });
  hosting.of("acme", "hosted", launchOf("mcp+node:///server.mjs"), grants.of("acme", "hosted", ["TOKEN"]));
  assert.equal(await given?.grant?.read("TOKEN"), "before");
  read = () => Promise.reject(new BerthError("store_failed"));
  assert.equal(await given?.grant?.read("TOKEN"), "before");
  hosting.secretChanged("acme", "TOKEN");
  assert.equal(renewals, 1);
  await assert.rejects(async () => given?.grant?.read("TOKEN"), /cannot be read now/);
});
