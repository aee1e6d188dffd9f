import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { keysOfNodes, startOwnPostgres } from "../postgres.mjs";
import { serve } from "./berth.mjs";
import { fillTenants, tenantName } from "./fill-tenants.mjs";
import { checkAnswer } from "./load.mjs";
import { memoryKb } from "./proc.mjs";
import { modernList } from "./requests.mjs";
import { median, percentile } from "./rounds.mjs";
import { startServer } from "./server-process.mjs";

/**
 * A Postgres with very many tenants beside one with none: how long a node takes to start, the memory that it has then, and
 * the first list of tools of tenants that it has not opened yet.
 *
 * @typedef {{ tenants: number, names: number, fillMs: number, startMs: { none: number, many: number },
 *   startedMb: { none: number, many: number }, coldP50Ms: number, coldP99Ms: number, mbPer1000: number }} TenantsFigures
 * `names`: of all tenants; `mbPer1000`: the memory of as many open tenants.
 */

/** Names of each tenant. */
const NAMES = 10;

/**
 * @param {string} folder
 * @param {string} image
 * @param {{ tenants: number, starts: number, cold: number }} size
 * @param {(line: string) => void} say
 * @returns {Promise<TenantsFigures>}
 */
export async function measureTenants(folder, image, { tenants, starts, cold }, say) {
  const postgres = await startOwnPostgres();
  const keys = keysOfNodes();
  const start = (database) =>
    startServer(
      (port) => {
        const launch = serve(folder, image, { data: mkdtempSync(join(folder, "data-")) })(port);
        return { ...launch, env: { ...launch.env, ...keys, BERTH_DATABASE: database } };
      },
      { alone: false },
    );
  try {
    const databases = { none: await postgres.database(), many: await postgres.database() };
    // The first start makes the tables, and applies the image.
    for (const database of Object.values(databases)) await (await start(database)).stop();
    const began = performance.now();
    await fillTenants(databases.many, { tenants, names: NAMES });
    const fillMs = performance.now() - began;
    say(`tenants: ${tenants} with ${tenants * NAMES} names, filled in ${Math.round(fillMs / 1_000)} s`);
    const [taken, memory] = [
      { none: [], many: [] },
      { none: [], many: [] },
    ];
    for (let time = 0; time < starts; time++) {
      for (const [size, database] of Object.entries(databases)) {
        const server = await start(database);
        taken[size].push(server.listeningMs);
        memory[size].push(memoryKb(server.pid) / 1024);
        await server.stop();
      }
    }
    const server = await start(databases.many);
    const coldMs = [];
    try {
      const before = memoryKb(server.pid);
      for (let index = 0; index < cold; index++) {
        const asked = performance.now();
        const tenant = tenantName(Math.floor((index * tenants) / cold));
        await checkAnswer(server.port, modernList(`/t/${tenant}/mcp/server-0`, 1));
        coldMs.push(performance.now() - asked);
      }
      const mbPer1000 = (((memoryKb(server.pid) - before) / 1024) * 1_000) / cold;
      const mediansOf = ({ none, many }) => ({ none: median(none), many: median(many) });
      const figures = {
        tenants,
        names: tenants * NAMES,
        fillMs,
        startMs: mediansOf(taken),
        startedMb: mediansOf(memory),
        coldP50Ms: median(coldMs),
        coldP99Ms: percentile(coldMs, 0.99),
        mbPer1000,
      };
      say(`tenants: ${JSON.stringify(figures)}`);
      return figures;
    } finally {
      await server.stop();
    }
  } finally {
    await postgres.close();
  }
}
