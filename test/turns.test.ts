import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { describe, it } from "node:test";
import { nextTurn, turnTaker } from "../src/turns.ts";

describe("work in several steps that something arriving has begun", () => {
  const takeTurns = turnTaker();
  const waysOf: Record<string, () => Promise<void>> = {
    "each after a turn of others": nextTurn,
    "or as many as fit into a stretch": async () => {
      const end = performance.now() + 2;
      while (performance.now() < end);
      await takeTurns();
    },
  };
  for (const [way, letOthers] of Object.entries(waysOf)) {
    it(`goes on after whatever has arrived meanwhile, ${way}`, async () => {
      const server = createServer().listen(0, "127.0.0.1");
      await once(server, "listening");
      const sockets: Socket[] = [];
      try {
        const { port } = server.address() as { port: number };
        for (let count = 0; count < 2; count++) {
          const accepted = once(server, "connection");
          sockets.push(connect(port, "127.0.0.1"), (await accepted)[0] as Socket);
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
      } finally {
        for (const socket of sockets) socket.destroy();
        server.close();
      }
    });
  }
});
