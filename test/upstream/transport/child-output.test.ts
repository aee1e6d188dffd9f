import assert from "node:assert/strict";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { ChildOutput } from "../../../src/upstream/transport/child-output.ts";

test("the stderr of an upstream shows no value of its URI, though one begins with another, in any notation", async () => {
  const pipes = { stdout: new PassThrough(), stderr: new PassThrough() };
  const values = ["token-1", "token-1-and-more"];
  const output = new ChildOutput(pipes, defaultLimits, values, undefined, undefined, () => {});
  pipes.stderr.end(`with token-1-and-more, ${Buffer.from("me:token-1-and-more").toString("base64")}`);
  await once(pipes.stderr, "end");
  assert.match(output.stderr, /^with \[hidden\], .{4}\[hidden\]=*$/);
});
