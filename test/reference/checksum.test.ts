import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test, type TestContext } from "node:test";
import { openExecutor } from "../../src/executor/open-executor.ts";
import { scriptRun } from "../../src/host/calls/run.ts";
import { patientLimits } from "../support/patience.ts";
import { compileTemplate } from "../support/reference.ts";

type Checksum = (text: string, algorithm?: string) => Promise<{ text: string } | { error: string }>;

async function openChecksum(context: TestContext): Promise<Checksum> {
  const executor = await openExecutor({ mode: "auto", limits: patientLimits });
  context.after(() => executor.close());
  const { tools, bundle } = await compileTemplate("checksum.sh");
  const script = { tenant: "default", server: "checksum", text: async () => bundle!, textsIn: assert.fail };
  const run = scriptRun(executor, script, tools[0]!.call, {
    name: "checksum",
    callMs: patientLimits.callMs,
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

test("checksum.sh sums every algorithm over exactly the bytes given", async (context) => {
  const checksum = await openChecksum(context);
  for (const algorithm of ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"]) {
    const digest = createHash(algorithm).update("héllo\n").digest("hex");
    assert.deepEqual(await checksum("héllo\n", algorithm), { text: `${digest}\n` });
  }
  const blake = createHash("blake2b512").update("").digest("hex");
  assert.deepEqual(await checksum("", "b2"), { text: `${blake}\n` });
});

test("checksum.sh never takes a text for an option, a path or a command", async (context) => {
  const checksum = await openChecksum(context);
  for (const text of ["-n", "--help", "$(id)", "`id`; exit 3", "a\\nb", "*", "'\"", "/etc/passwd", " ", "%s\\n"]) {
    assert.deepEqual(await checksum(text), { text: `${createHash("sha256").update(text).digest("hex")}\n` }, text);
  }
});

test("checksum.sh refuses an algorithm that it does not know, whatever it holds", async (context) => {
  const checksum = await openChecksum(context);
  for (const algorithm of ["sha3", "", "../../bin/sh -c id #", "sha256 md5"]) {
    assert.deepEqual(await checksum("x", algorithm), {
      error: `exit code 2: unknown algorithm "${algorithm}": use md5, sha1, sha224, sha256, sha384, sha512 or b2`,
    });
  }
});

test("T11.2 checksum.sh is one tool, described by its header", async () => {
  const { tools } = await compileTemplate("checksum.sh");
  assert.deepEqual(
    tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
    [
      {
        name: "checksum",
        description: "The checksum of a text, as lower-case hexadecimal digits.",
        inputSchema: {
          type: "object",
          properties: {
            text: {
              type: "string",
              description: "The text; its UTF-8 bytes are summed, with nothing added at the end.",
            },
            algorithm: {
              type: "string",
              enum: ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "b2"],
              description: "Which sum to take.",
              default: "sha256",
            },
          },
          required: ["text"],
          additionalProperties: false,
        },
      },
    ],
  );
});
