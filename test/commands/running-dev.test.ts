import assert from "node:assert/strict";
import { once } from "node:events";
import { symlinkSync, writeFileSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { openOwnFolder, prepareData } from "../../src/commands/own-folder.ts";
import { recordDev, runningDev } from "../../src/commands/running-dev.ts";
import { temporaryFolder } from "../support/image-sources.ts";

test("finds the berth dev of a folder while it runs, and no other program", async (t) => {
  let body = '{"status":"ok"}';
  const server = createServer((_, response) => response.end(body)).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const folder = temporaryFolder();
  writeFileSync(join(folder, "mcps.json"), "{}");
  const own = openOwnFolder(folder);
  prepareData(own);
  const [file, other] = [join(folder, ".berth", "dev-address"), join(folder, "other")];
  writeFileSync(other, "mine");
  symlinkSync(other, file);

  assert.equal(await runningDev(own), undefined);
  const forget = recordDev(own, `http://localhost:${port}`);
  assert.equal(readFileSync(other, "utf8"), "mine");
  assert.equal(await runningDev(own), `http://127.0.0.1:${port}`);
  body = "something else";
  assert.equal(await runningDev(own), undefined);
  body = '{"status":"ok"}';
  for (const record of [`${2 ** 22 + 1} ${port}`, `${process.pid} ${port}@host.example`, `${process.pid}`, ""]) {
    writeFileSync(file, record);
    assert.equal(await runningDev(own), undefined, record);
  }
  recordDev(own, `http://127.0.0.1:${port}`);
  forget();
  assert.equal(await runningDev(own), undefined);
});
