import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { GuestProcess } from "../../src/executor/guest-process.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import type { SpawnedProcess } from "../../src/processes/spawn/spawn.ts";

test("a guest whose frames take long to read delivers one chunk of them in one turn of the event loop", async () => {
  const pipe = new PassThrough();
  const started: SpawnedProcess = {
    // No process has it.
    pid: 2 ** 30,
    pipes: [undefined, undefined, new PassThrough(), pipe],
    exited: new Promise(() => {}),
  };
  const turns: number[] = [];
  let turn = 0;
  const count = (): void => {
    turn += 1;
    if (turns.length < 4) setImmediate(count);
  };
  await new Promise<void>((resolve) => {
    const onFrame = (): void => {
      // The time that the product measures, too: other threads of this process may use CPU time meanwhile.
      for (const until = performance.now() + 4; performance.now() < until;);
      if (turns.push(turn) === 4) resolve();
    };
    const command = { file: "none", args: [], env: {}, cwd: "/" };
    void new GuestProcess(() => Promise.resolve(started), command, defaultLimits, { onFrame, onEnded: () => {} });
    setImmediate(() => {
      count();
      for (let chunk = 0; chunk < 4; chunk++) pipe.write("[1]\n");
    });
  });
  assert.equal(new Set(turns).size, 4, turns.join());
});
