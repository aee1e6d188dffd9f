import { readConfig, type Config } from "../config.ts";
import { createLog } from "../log.ts";
import { startBerth } from "../main.ts";

export interface ServeOptions {
  readonly port?: string;
  readonly host?: string;
  readonly data?: string;
  readonly image?: string;
  readonly readonly?: boolean;
}

/** `berth serve`: serves until SIGINT or SIGTERM; a second signal ends at once. */
export async function serve(options: ServeOptions): Promise<number> {
  const config = readConfig(environmentOf(options), options.readonly ? { image: "readonly" } : {});
  const log = createLog(config.logLevel);
  const berth = await startBerth(config, log);
  announce(berth.url, config);

  const signal = await new Promise<string>((resolve) => {
    process.once("SIGINT", resolve);
    process.once("SIGTERM", resolve);
  });
  log.info({ signal }, "shutting down");
  await berth.close();
  return 0;
}

/** A flag is another way to say a variable, so that both are read and checked in one place. */
function environmentOf({ port, host, data, image }: ServeOptions): NodeJS.ProcessEnv {
  return {
    ...process.env,
    ...(port !== undefined && { BERTH_PORT: port }),
    ...(host !== undefined && { BERTH_HOST: host }),
    ...(data !== undefined && { BERTH_DATA: data }),
    ...(image !== undefined && { BERTH_IMAGE_DIR: image }),
  };
}

function announce(url: string, { dataDir }: Config): void {
  console.error(`Berth serves ${url}/mcp (data in ${dataDir}). Stop it with Ctrl-C.`);
}
