import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { clientsFolder, resolveClient, toAnswer } from "./real-client.ts";
import type { RealClient } from "./real-client.ts";

/** The inspector's command line, 2.12. */
export function inspector(era: "legacy" | "modern"): RealClient {
  const launcher = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
  const run = async (url: string, ...args: string[]): Promise<unknown> => {
    const target = [clientFile(launcher), "--cli", url, "--transport", "http", "--protocol-era", era];
    // 5 is the inspector's way to say that the tool's own result is an error.
    return JSON.parse(await runOnNode24([...target, ...args], [0, 5]));
  };
  return {
    name: `the inspector in the ${era} era`,
    list: async (url) => toolNames(await run(url, "--method", "tools/list")),
    call: async (url, tool, args) => {
      const pairs = Object.entries(args).flatMap(([key, value]) => ["--tool-arg", `${key}=${asText(value)}`]);
      return toAnswer(await run(url, "--method", "tools/call", "--tool-name", tool, ...pairs));
    },
  };
}

/** mcporter 0.12, an independent client. */
export function mcporter(): RealClient {
  // 1 stands for a tool's own error too; what is no answer is no JSON either.
  const run = async (...args: string[]): Promise<unknown> =>
    JSON.parse(await runOnNode24([clientFile("mcporter/dist/cli.js"), ...args, "--allow-http"], [0, 1]));
  return {
    name: "mcporter",
    list: async (url) => toolNames(await run("list", url, "--json")),
    call: async (url, tool, args) =>
      toAnswer(
        await run("call", "--http-url", url, "--tool", tool, "--args", JSON.stringify(args), "--output", "json"),
      ),
  };
}

const asText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

const toolNames = (listed: unknown): string[] =>
  (listed as { tools: { name: string }[] }).tools.map(({ name }) => name);

/** A file of a package that does not export it. */
function clientFile(path: string): string {
  return join(clientsFolder, "node_modules", ...path.split("/"));
}

/** Both need Node 24, which the package `node` brings. A home of its own keeps them from a person's settings. */
async function runOnNode24(args: readonly string[], exitCodes: readonly number[]): Promise<string> {
  const node = join(dirname(resolveClient("node/package.json")), "bin", "node");
  const home = await mkdtemp(join(tmpdir(), "berth-client-"));
  try {
    return await new Promise((resolve, reject) => {
      const env = { PATH: process.env["PATH"], HOME: home, NO_COLOR: "1" };
      const child = execFile(node, args, { env, cwd: home, timeout: 60_000 }, (error, stdout, stderr) => {
        if (exitCodes.includes(child.exitCode ?? -1)) resolve(stdout);
        else reject(new Error(`${args.join(" ")} ended with ${child.exitCode}: ${stderr}${stdout}`, { cause: error }));
      });
    });
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}
