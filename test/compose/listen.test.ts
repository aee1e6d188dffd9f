import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { test } from "node:test";
import { listen } from "../../src/compose/listen.ts";

test("suggests a free port instead of one that is taken", async (t) => {
  const host = "127.0.0.1";
  const servers = [createServer(), createServer(), createServer()] as const;
  t.after(() => servers.forEach((server) => server.close()));
  const [first, second, own] = servers;
  await listen(first, { host, port: 0 });
  const { port } = first.address() as AddressInfo;
  // Another process may have the next port.
  second.listen(port + 1, host);
  await Promise.race([once(second, "listening"), once(second, "error")]).catch(() => undefined);
  const error: Error = await listen(own, { host, port }).then(
    () => assert.fail(),
    (reason) => reason,
  );
  const [, suggested] = new RegExp(`port ${port} is taken; choose another with --port (\\d+) or BERTH_PORT$`).exec(
    error.message,
  )!;
  assert.ok(Number(suggested) === 0 || Number(suggested) > port + 1, error.message);
});
