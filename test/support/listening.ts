import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo, Server } from "node:net";

/** Has a server listen at a free port of this machine, and returns the port. */
export async function listening(server: Server, host = "127.0.0.1"): Promise<number> {
  server.listen(0, host);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

export type Listener = (...exchange: Parameters<RequestListener>) => unknown;

/** An HTTP server at a free port of this machine; closing it ends its connections. */
export async function openServer(
  listener: Listener,
): Promise<{ readonly url: string; readonly close: () => Promise<void> }> {
  const server = createServer((request, response) => void listener(request, response));
  const port = await listening(server);
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${port}`, close };
}
