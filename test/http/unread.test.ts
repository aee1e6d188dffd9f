import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { describe, it } from "node:test";
import { Unread } from "../../src/http/unread.ts";
import { request } from "../support/berth.ts";
import { rigFor } from "../support/mcp-host.ts";
import { connectRaw, rawPost } from "../support/raw-http.ts";
import { contextOf } from "../support/request-context.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

describe("what clients have not taken yet of long answers", () => {
  /** An answer with a number of waiting bytes, on a connection of its own. */
  class Answer extends EventEmitter {
    writableLength: number;
    destroyed = false;

    constructor(unread: Unread, bytes: number) {
      super();
      this.writableLength = bytes;
      unread.count(contextOf({ response: this }, unread));
    }

    destroy(): void {
      this.destroyed = true;
      this.emit("close");
    }

    take(bytes: number): void {
      this.writableLength -= bytes;
    }
  }

  const cut = (answers: readonly Answer[]): boolean[] => answers.map(({ destroyed }) => destroyed);

  it("unreadBytesPerTenant: above, the answer goes that has waited longest", () => {
    const unread = new Unread({ unreadBytes: 100 * MIB, unreadBytesPerTenant: 4 * MIB });
    const answers = Array.from({ length: 6 }, () => new Answer(unread, MIB));
    assert.deepEqual(cut(answers), [true, true, false, false, false, false]);
  });

  it("what was taken counts no more, and whoever takes some keeps its place", () => {
    const unread = new Unread({ unreadBytes: 4 * MIB, unreadBytesPerTenant: 100 * MIB });
    const answers = Array.from({ length: 4 }, () => new Answer(unread, MIB));
    answers[0]!.take(100 * KIB);
    answers[1]!.take(MIB);
    answers.push(new Answer(unread, MIB), new Answer(unread, 100 * KIB), new Answer(unread, MIB));
    assert.deepEqual(cut(answers), [false, false, true, false, false, false, false]);
  });

  it("unreadBytesPerTenant: is held to by answers over HTTP, and whoever comes then is answered whole", async (t) => {
    const rig = await rigFor(t, {}, { unreadBytesPerTenant: 16 * MIB });
    const text = "x".repeat(12 * MIB);
    rig.host.offer("one", { tools: { long: () => text } });
    const message = rawPost("/mcp/one", request("tools/call", { name: "long" }), {
      Accept: "application/json",
      Connection: "close",
    });
    const ask = async () => {
      const connection = await connectRaw(rig.url("one"));
      connection.socket.write(message);
      await connection.until(/^HTTP\/1.1 200/);
      connection.socket.pause();
      return connection;
    };
    const all = [await ask(), await ask(), await ask(), await ask()];
    for (const { socket } of all) socket.resume();
    const lengths = await Promise.all(all.map(async ({ closed }) => (await closed).length));
    assert.ok(lengths[0]! < text.length && lengths[1]! < text.length, String(lengths));
    assert.ok(lengths[3]! > text.length, String(lengths));
  });
});
