import { readConfig } from "../config.ts";
import { writeLastLines } from "../lib/log.ts";
import { BerthError } from "../lib/errors.ts";
import { EXPLORE } from "../host/builtin/explore-server.ts";
import { startStdio } from "../compose/main.ts";
import { environmentOf, type StoreOptions } from "./environment.ts";
import { serviceLog } from "./service-log.ts";
import { signalled } from "./signalled.ts";

export interface StdioCommandOptions extends StoreOptions {
  /** False with `--no-mcp`. */
  readonly mcp: boolean;
  /** Serves only the server `explore`, which is off everywhere else unless `BERTH_EXPLORE` enables it. */
  readonly explore?: boolean;
}

/**
 * `berth stdio <server>`: one connection on standard input and output, until either ends or a signal comes. Nothing
 * else is written to standard output.
 */
export async function stdio(server: string | undefined, options: StdioCommandOptions): Promise<number> {
  if (options.explore && server !== undefined) {
    throw new BerthError("config_invalid", `--explore serves the server "${EXPLORE}" alone; leave out "${server}"`);
  }
  const output = process.stdout;
  // Stray prints go to the log.
  Object.defineProperty(process, "stdout", { value: process.stderr });

  const config = readConfig(
    { BERTH_LOG: "warn", ...environmentOf(options) },
    { ...(options.readonly && { image: "readonly" as const }), ...(options.explore && { explore: true }) },
  );
  const log = serviceLog(config);
  const nativeOnly = !options.mcp;
  const served = options.explore ? EXPLORE : server;
  const signal = signalled();
  const connection = await startStdio(config, log, { server: served, nativeOnly, input: process.stdin, output });
  await Promise.race([connection.ended, signal]);
  // A client that only ended the input still reads the answers; the sender of a signal will not wait for long.
  await connection.close(signal);
  process.stdin.destroy();
  await writeLastLines(log);
  return 0;
}
