import type { Config } from "../config.ts";

/** Tells the person who started it where Berth serves, and who may use it. */
export function announce(url: string, config: Config): void {
  const place = config.database === undefined ? config.dataDir : "Postgres";
  console.error(`Berth serves ${url}/mcp (data in ${place}). Stop it with Ctrl-C.`);
  announceAccess(config);
}

export function announceAccess({ access }: Config): void {
  if (access === "open") console.error("No token is required: every process on this machine can use it.");
  else console.error("Every request requires a token: create one with `berth token create`.");
}
