import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startBerth } from "../../src/compose/main.ts";
import { packageRoot } from "../../src/config.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { createLog } from "../../src/lib/log.ts";
import type { TestBerth } from "./berth.ts";
import { berth as command, exits } from "./commands.ts";
import { readTestConfig } from "./config.ts";

/** Serves those of `examples/` that are named in `changed`, with the changed fields of their entries. */
export async function startExamples(
  changed: Readonly<Record<string, JsonObject>>,
  env: Readonly<Record<string, string>> = {},
): Promise<TestBerth> {
  const folder = await mkdtemp(join(tmpdir(), "berth-examples-"));
  const from = join(folder, "sources");
  await cp(join(packageRoot, "examples"), from, { recursive: true });
  const file = join(from, "mcps.source.json");
  const all = JSON.parse(await readFile(file, "utf8")) as Record<string, JsonObject>;
  const mcps = Object.entries(changed).map(([name, fields]) => [name, { ...all[name], ...fields }]);
  await writeFile(file, JSON.stringify(Object.fromEntries(mcps)));
  const out = join(folder, "boot");
  await exits(0, command(["boot", "--from", from, "--out", out, "--strict"], { env: {} }));
  const places = { BERTH_PORT: "0", BERTH_DATA: join(folder, "data"), BERTH_IMAGE_DIR: out, BERTH_LOG: "silent" };
  const berth = await startBerth(readTestConfig({ ...places, ...env }), createLog("silent"));
  return {
    ...berth,
    folder,
    async close() {
      await berth.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
