import { spawn } from "node:child_process";
import { once } from "node:events";

/** A separate test run: how it ended, and all its output. */
export async function runTests(node: string, files: readonly string[], more: NodeJS.ProcessEnv = {}) {
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined, ...more };
  const run = spawn(node, ["scripts/test.mjs", ...files], { env, stdio: ["ignore", "pipe", "pipe"] });
  let told = "";
  for (const stream of [run.stdout, run.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (told += text));
  const [code] = (await once(run, "close")) as [number | null];
  return { code, told };
}
