import { readConfig, type Config } from "../config.ts";
import { createLog } from "../log.ts";
import { startBerth } from "../main.ts";
import { environmentOf, type StoreOptions } from "./environment.ts";
import { signalled } from "./signalled.ts";

export interface ServeOptions extends StoreOptions {
  readonly port?: string;
  readonly host?: string;
}

/** `berth serve`: serves until SIGINT or SIGTERM; a second signal ends at once. */
export async function serve(options: ServeOptions): Promise<number> {
  const config = readConfig(environmentOf(options), options.readonly ? { image: "readonly" } : {});
  const log = createLog(config.logLevel, [config.adminToken]);
  const ended = signalled();
  let berth = await startBerth(config, log);
  announce(berth.url, config);

  for (;;) {
    const signal = await Promise.race([ended, berth.replaced]);
    if (signal) log.info({ signal }, "shutting down");
    await berth.close();
    if (signal) return 0;
    log.warn("the store was restored: Berth serves anew what stands in it now");
    berth = await startBerth({ ...config, port: Number(new URL(berth.url).port) }, log);
  }
}

function announce(url: string, { dataDir, access }: Config): void {
  console.error(`Berth serves ${url}/mcp (data in ${dataDir}). Stop it with Ctrl-C.`);
  if (access === "open") console.error("Nobody is asked for a token: every program of this machine may use it.");
  else console.error("Everybody is asked for a token; `berth token create` makes one.");
}
