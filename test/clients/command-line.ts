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
    return JSON.parse(outputOf(await runOnNode24([...target, ...args]), [0, 5]));
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
  const run = (...args: string[]): Promise<Ended> =>
    runOnNode24([clientFile("mcporter/dist/cli.js"), ...args, "--allow-http"]);
  return {
    name: "mcporter",
    list: async (url) => toolNames(JSON.parse(outputOf(await run("list", url, "--json"), [0]))),
    call: async (url, tool, args) => {
      const target = ["--http-url", url, "--tool", tool, "--args", JSON.stringify(args), "--output", "text"];
      const ended = await run("call", ...target);
      // 1 stands for a tool's own error, whose text is printed, and for any other failure, which prints no text.
      const text = outputOf(ended, ended.stdout === "" ? [0] : [0, 1]);
      return { text: text.replace(/\n$/, ""), isError: ended.exitCode === 1 };
    },
  };
}

const asText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

const toolNames = (listed: unknown): string[] =>
  (listed as { tools: { name: string }[] }).tools.map(({ name }) => name);

/** A file of a package that does not export it. */
function clientFile(path: string): string {
  return join(clientsFolder, "node_modules", ...path.split("/"));
}

interface Ended {
  readonly args: readonly string[];
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function outputOf({ args, exitCode, stdout, stderr }: Ended, goodCodes: readonly (number | null)[]): string {
  if (goodCodes.includes(exitCode)) return stdout;
  throw new Error(`${args.join(" ")} ended with ${exitCode}: ${stderr}${stdout}`);
}

/** Both need Node 24, which the package `node` brings. A home of its own keeps them from a person's settings. */
async function runOnNode24(args: readonly string[]): Promise<Ended> {
  const node = join(dirname(resolveClient("node/package.json")), "bin", "node");
  const home = await mkdtemp(join(tmpdir(), "berth-client-"));
  try {
    return await new Promise((resolve) => {
      const env = { PATH: process.env["PATH"], HOME: home, NO_COLOR: "1" };
      const child = execFile(node, args, { env, cwd: home, timeout: 60_000 }, (_error, stdout, stderr) => {
        resolve({ args, exitCode: child.exitCode, stdout, stderr });
      });
    });
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}
