import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { yieldToCalls, createYielder } from "../../src/lib/event-loop.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

describe("work in several steps that something arriving has begun", () => {
  const takeTurns = createYielder();
  const waysOf: Record<string, () => Promise<void>> = {
    "each after a turn of others": yieldToCalls,
    "or as many as fit into a stretch": async () => {
      const end = performance.now() + 2;
      while (performance.now() < end);
      await takeTurns();
    },
  };
  for (const [way, letOthers] of Object.entries(waysOf)) {
    it(`goes on after whatever has arrived meanwhile, ${way}`, async (t) => {
      // A write to a socket of this kind arrives at once.
      const path = join(temporaryFolder(t), "socket");
      const server = createServer().listen(path);
      await once(server, "listening");
      const sockets: Socket[] = [];
      t.after(() => {
        for (const socket of sockets) socket.destroy();
        server.close();
      });
      for (let count = 0; count < 2; count++) {
        const accepted = once(server, "connection");
        const socket = connect(path);
        await once(socket, "connect");
        sockets.push(socket, (await accepted)[0] as Socket);
      }
      const [first, ours, second, others] = sockets as [Socket, Socket, Socket, Socket];
      let arrived = 0;
      others.on("data", () => (arrived += 1));
      const seen = new Promise<number>((resolve) => {
        ours.once("data", () => {
          second.write("call");
          void letOthers().then(() => resolve(arrived));
        });
      });
      first.write("save");
      assert.equal(await seen, 1);
    });
  }
});
