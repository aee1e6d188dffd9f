import { createServer, type Server } from "node:net";
import { BerthError } from "../lib/errors.ts";

/** Throws `config_invalid`. */
export async function listen(server: Server, { host, port }: { host: string; port: number }): Promise<void> {
  await listening(server, host, port).catch(async (error: NodeJS.ErrnoException) => {
    let detail = error.message;
    if (error.code === "EADDRINUSE") {
      detail = `port ${port} is taken; choose another with --port ${await freePort(host, port + 1)} or BERTH_PORT`;
    }
    throw new BerthError("config_invalid", detail, { cause: error });
  });
}

function listening(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject).listen({ port, host }, resolve);
  });
}

/** The next free port, or 0, with which the system chooses one. */
async function freePort(host: string, first: number): Promise<number> {
  for (let port = first; port < Math.min(first + TRIED_MAX, 65_536); port++) {
    const server = createServer();
    const isFree = await listening(server, host, port).then(
      () => true,
      () => false,
    );
    server.close();
    if (isFree) return port;
  }
  return 0;
}

const TRIED_MAX = 20;
