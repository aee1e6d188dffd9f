import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test, type TestContext } from "node:test";
import { openExecutor } from "../../src/executor/open-executor.ts";
import { createScriptRun } from "../../src/host/calls/run.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { compileTemplate } from "../support/reference.ts";

type Checksum = (text: string, algorithm?: string) => Promise<{ text: string } | { error: string }>;

async function openChecksum(context: TestContext): Promise<Checksum> {
  const executor = await openExecutor({ mode: "auto", limits: defaultLimits });
  context.after(() => executor.close());
  const { tools, bundle } = await compileTemplate("checksum.sh");
  const script = { tenant: "default", server: "checksum", text: async () => bundle!, readTexts: assert.fail };
  const run = createScriptRun(executor, script, tools[0]!.call, {
    name: "checksum",
    callMs: defaultLimits.callMs,
    toolOptions: {},
    warn: assert.fail,
  });
  return async (text, algorithm = "sha256") => {
    const outcome = await run({ text, algorithm }, {});
    if (!outcome.ok) return { error: outcome.error.message };
    assert.equal(outcome.value.kind, "text");
    return outcome.value.kind === "text" ? { text: outcome.value.text } : { error: "no text" };
  };
}

test("checksum.sh hashes exactly the bytes given, and takes no text for an option, a path or a command", async (context) => {
  const checksum = await openChecksum(context);
  for (const algorithm of ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"]) {
    const digest = createHash(algorithm).update("héllo\n").digest("hex");
    assert.deepEqual(await checksum("héllo\n", algorithm), { text: `${digest}\n` });
  }
  const blake = createHash("blake2b512").update("").digest("hex");
  assert.deepEqual(await checksum("", "b2"), { text: `${blake}\n` });
  for (const text of ["-n", "--help", "$(id)", "`id`; exit 3", "a\\nb", "*", "'\"", "/etc/passwd", " ", "%s\\n"]) {
    assert.deepEqual(await checksum(text), { text: `${createHash("sha256").update(text).digest("hex")}\n` }, text);
  }
  for (const algorithm of ["sha3", "", "../../bin/sh -c id #", "sha256 md5"]) {
    assert.deepEqual(await checksum("x", algorithm), {
      error: `exit code 2: unknown algorithm "${algorithm}": use md5, sha1, sha224, sha256, sha384, sha512 or b2`,
    });
  }
});
