import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { toAnswer, type RealClient, type ToolAnswer } from "./real-client.ts";
import { clientFile, outputOf, runOnNode24, startOnNode24, withHome, type Ended } from "./run-client.ts";

export interface Inspector extends RealClient {
  /** One run with `--method method`; returns its output as JSON. */
  ask(url: string, method: string, ...args: string[]): Promise<unknown>;
}

/** The inspector's command line, 2.12. */
export function inspector(era: "legacy" | "modern"): Inspector {
  const launcher = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
  const ask = async (url: string, method: string, ...args: string[]): Promise<unknown> => {
    const target = [clientFile(launcher), "--cli", url, "--transport", "http", "--protocol-era", era];
    // 5 means that the tool's own result is an error.
    return JSON.parse(outputOf(await runOnNode24([...target, "--method", method, ...args]), [0, 5]));
  };
  return {
    name: `the inspector in the ${era} era`,
    ask,
    list: async (url) => toolNames(await ask(url, "tools/list")),
    call: async (url, tool, args) => {
      const pairs = Object.entries(args).flatMap(([key, value]) => ["--tool-arg", `${key}=${asText(value)}`]);
      return toAnswer(await ask(url, "tools/call", "--tool-name", tool, ...pairs));
    },
  };
}

export interface Mcporter extends RealClient {
  /** The listed URIs. */
  resources(url: string): Promise<string[]>;
  read(url: string, uri: string): Promise<unknown>;
}

/** mcporter 0.12, an independent client. */
export function mcporter(): Mcporter {
  const script = clientFile("mcporter/dist/cli.js");
  const run = (...args: string[]): Promise<Ended> => runOnNode24([script, ...args, "--allow-http"]);
  // Resources are available only for servers in its configuration.
  const resource = (url: string, ...args: string[]): Promise<unknown> =>
    withHome(async (home) => {
      const config = join(home, "mcporter.json");
      await writeFile(config, JSON.stringify({ mcpServers: { whole: { url, allowHttp: true } } }));
      const { ended } = startOnNode24([script, "--config", config, "resource", "whole", ...args, "--json"], home);
      return JSON.parse(outputOf(await ended, [0]));
    });
  return {
    name: "mcporter",
    list: async (url) => toolNames(JSON.parse(outputOf(await run("list", url, "--json"), [0]))),
    call: async (url, tool, args): Promise<ToolAnswer> => {
      const given = ["--args", JSON.stringify(args), "--output", "text"];
      const ended = await run("call", "--http-url", url, "--tool", tool, ...given);
      // 1 stands for a tool's own error, whose text is printed, and for any other failure, which prints no text.
      const text = outputOf(ended, ended.stdout === "" ? [0] : [0, 1]);
      return { text: text.replace(/\n$/, ""), isError: ended.exitCode === 1 };
    },
    resources: async (url) => {
      const { resources } = (await resource(url)) as { resources: { uri: string }[] };
      return resources.map(({ uri }) => uri);
    },
    read: (url, uri) => resource(url, uri),
  };
}

const asText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

const toolNames = (listed: unknown): string[] =>
  (listed as { tools: { name: string }[] }).tools.map(({ name }) => name);
