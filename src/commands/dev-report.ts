import type { ServerSummary } from "../host/catalog/overview.ts";
import { clientName } from "../http/pages/parts/setup.ts";
import type { Berth } from "../compose/main.ts";
import { strictly } from "../lib/problem.ts";
import { printable } from "../lib/printable.ts";
import type { CallObserver, LineObserver } from "../host/calls/observe.ts";
import { inOwnFiles, inOwnFolder, type FileServer } from "./dev-files.ts";
import { countProblems, printProblems } from "./print-problems.ts";

/** Prints the first message: what is served, and how to connect a client. */
export async function announceServers(berth: Berth, servers: readonly FileServer[], isStrict: boolean): Promise<void> {
  for (const server of servers) await reportServer(berth, server, isStrict);
  const [first] = servers;
  console.error(
    [
      "",
      "Give a client this address, for example",
      `  claude mcp add --transport http ${clientName(first!.name)} ${urlOf(berth, first!)}`,
      `or try the tools in a browser: ${berth.url}/mcp/meta/${encodeURIComponent(first!.name)}`,
      "",
      "Files are watched: save, and the change is served. Stop with Ctrl-C.",
    ].join("\n"),
  );
}

/**
 * Prints the state of one server: its address, its tools, and every problem with its place. `isStrict`: type errors are
 * reported as errors; the server is served all the same.
 */
export async function reportServer(berth: Berth, server: FileServer, isStrict: boolean): Promise<void> {
  const served = await berth.server(server.name);
  if (!served) return;
  const loading = served.catalog ? await berth.loadProblems(server.name) : [];
  const found = { ...served, problems: [...served.problems, ...loading] };
  const summary = isStrict ? { ...found, problems: strictly(found.problems) } : found;
  console.error(`${clock()} ${server.name}  ${urlOf(berth, server)}  ${countsOf(summary)}`);
  for (const { name, description } of summary.catalog?.contract.tools ?? []) {
    const about = description === undefined ? "" : `  ${description.split("\n")[0]}`;
    console.error(`         ${name}${about}`);
  }
  printProblems(inOwnFiles(summary.problems, server));
}

/** Prints where a function threw, with the line of its file: callers get the message alone. */
export function reportFailures(servers: readonly FileServer[]): CallObserver {
  const byName = new Map(servers.map((server) => [server.name, server]));
  return ({ tool, failure }) => {
    const stack = failure?.stack;
    const server = byName.get(tool.server);
    if (!server || stack === undefined) return;
    console.error(`${clock()} ${server.name}.${printable(tool.tool)} failed: ${printable(ownFiles(stack, server))}`);
  };
}

/** Prints the lines that functions print and log, at any level. */
export function reportLines(servers: readonly FileServer[]): LineObserver {
  const byName = new Map(servers.map((server) => [server.name, server]));
  return ({ tool, line: { level, message } }) => {
    const server = byName.get(tool.server);
    if (!server) return;
    const text = ownFiles(typeof message === "string" ? message : JSON.stringify(message), server);
    console.error(`${clock()} ${server.name}.${printable(tool.tool)} ${level}: ${printable(text)}`);
  };
}

/** Replaces file names by the person's own. */
function ownFiles(text: string, server: FileServer): string {
  return text.replaceAll(/definition:([^\s()]+?)(?=:\d+:\d+)/g, (_, file: string) => inOwnFolder(file, server));
}

function clock(): string {
  return new Date().toLocaleTimeString("en-GB");
}

function countsOf({ catalog, problems }: ServerSummary): string {
  const { tools = [], resources = [], resourceTemplates = [], prompts = [] } = catalog?.contract ?? {};
  const counts: [number, string][] = [
    [tools.length, "tool"],
    [resources.length + resourceTemplates.length, "resource"],
    [prompts.length, "prompt"],
  ];
  const offers = counts
    .filter(([count], index) => count > 0 || index === 0)
    .map(([count, what]) => `${count} ${what}${count === 1 ? "" : "s"}`);
  return [catalog ? offers.join(", ") : "not served", countProblems(problems)].filter(Boolean).join(", ");
}

function urlOf({ url }: Berth, { name }: FileServer): string {
  return `${url}/mcp/${encodeURIComponent(name)}`;
}
