import { randomBytes } from "node:crypto";

/** A Postgres for the time of a measurement, as tests have it. @returns {Promise<import("../test/support/postgres.ts").TestPostgres>} */
export async function startOwnPostgres(settings = {}) {
  const { startPostgres } = await import("../dist/test/support/postgres.js");
  return startPostgres({ settings: { shared_buffers: "256MB", ...settings } });
}

/** The keys that all nodes on a Postgres are given. @returns {Record<string, string>} */
export function keysOfNodes() {
  const key = () => randomBytes(32).toString("base64");
  return { BERTH_SEAL_KEY: key(), BERTH_SECRET_KEY: key() };
}
