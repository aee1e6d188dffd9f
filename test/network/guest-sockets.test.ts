import assert from "node:assert/strict";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { call, startTestBerth, type TestBerth } from "../support/berth.ts";

const GUEST = `
import net from "node:net";
import { connect as named } from "node:net";
import http from "node:http";
import dns from "node:dns";

/** Sends a text and resolves with all that comes back. */
export async function echo(host: string, port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, host);
    let said = "";
    socket.on("data", (chunk) => (said += chunk));
    socket.on("error", reject);
    socket.on("end", () => resolve(said));
    socket.write(text);
    socket.end();
  });
}
/** Tells how a connection fails. */
export async function failed(host: string, port: number): Promise<{ message: string; code: string }> {
  return new Promise((resolve) => {
    const socket = new net.Socket();
    socket.on("error", (error: any) => resolve({ message: error.message, code: error.code }));
    socket.connect({ host, port }, () => resolve({ message: "connected", code: "" }));
  });
}
`;

for (const guests of ["sandboxed", "trusted"] as const) {
  describe(`the sockets of ${guests} guests`, () => {
    let berth: TestBerth;
    let server: Server;
    let port: number;
    const sockets = new Set<Socket>();
    before(async () => {
      server = createServer({ allowHalfOpen: true }, (socket) => {
        sockets.add(socket);
        socket.on("error", () => {});
        socket.pipe(socket);
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      ({ port } = server.address() as AddressInfo);
      berth = await startTestBerth({
        texts: { "guest.ts": GUEST, "offline.ts": GUEST },
        mcps: { guest: { definition: "guest.ts", network: [`127.0.0.1:${port}`] } },
        env: { BERTH_GUESTS: guests },
      });
    });
    after(async () => {
      await berth.close();
      server.close();
    });
    // oxlint-disable-next-line typescript/no-explicit-any -- a result has any shape
    const ask = async (tool: string, args: object, name = "guest"): Promise<any> => {
      const result = await call(`${berth.url}/mcp/${name}`, tool, args as Record<string, unknown>);
      return result.structuredContent?.result ?? result.structuredContent ?? result.content?.[0]?.text ?? result;
    };

    it("reach what their entry lists", async () => {
      assert.equal(await ask("echo", { host: "127.0.0.1", port, text: "hello" }), "hello");
    });

    it("reach nothing else, and say what to add to the entry", async () => {
      const { code, message } = await ask("failed", { host: "example.org", port: 5432 });
      assert.equal(code, "EACCES");
      assert.equal(
        message,
        'example.org:5432 may not be reached: "network" of the entry "guest" in mcps does not list it: add "example.org:5432"',
      );
      assert.match((await ask("failed", { host: "127.0.0.1", port: port + 1 })).message, /does not list it/);
      assert.match(
        (await ask("failed", { host: "127.0.0.1", port }, "offline")).message,
        /the entry "offline" in mcps lists no "network"; add "network": \["127\.0\.0\.1:\d+"\]/,
      );
    });
  });
}
