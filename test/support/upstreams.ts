import { join, resolve } from "node:path";
import { packageRoot } from "../../src/config.ts";
import { changeFixed } from "../../src/limits/fixed.ts";
import { defaultLimits, type Limits } from "../../src/limits/limits.ts";
import { openSender } from "../../src/network/public-fetch.ts";
import { connectUpstream } from "../../src/upstream/calls/connect.ts";
import type { UpstreamConnection } from "../../src/upstream/calls/connection.ts";
import type { Launch } from "../../src/upstream/launch/launch.ts";
import { parseLauncher } from "../../src/upstream/launch/launcher-uri.ts";
import type { ConnectOptions } from "../../src/upstream/transport/channel.ts";
import { Upstream, type UpstreamOptions } from "../../src/upstream/upstream.ts";
import type { Ending } from "./temporary-folder.ts";

changeFixed({ upstreamEndMs: 500 });

export const fixtures = join(packageRoot, "test", "fixtures", "upstreams");
export const notes = `mcp+python://${join(fixtures, "notes.py")}`;

/** The path of a program in a package of test/upstreams. */
export function installed(path: string): string {
  return `mcp+node://${resolve("test/upstreams/node_modules", path)}`;
}

export const everything = `${installed("@modelcontextprotocol/server-everything/dist/index.js")}?command=stdio`;

/** A server that misbehaves in the given way; see test/fixtures/upstreams/hostile.mjs. */
export function hostile(way: string, more = ""): string {
  return `mcp+node://${join(fixtures, "hostile.mjs")}?command=${encodeURIComponent(way)}${more}`;
}

export function launchOf(uri: string): Launch {
  const { launch, problems } = parseLauncher(uri);
  if (!launch) throw new Error(JSON.stringify(problems));
  return launch;
}

/** As the service reaches remote servers. */
const send = openSender();

export function connect(
  uri: string,
  options: Partial<Omit<ConnectOptions, "limits">> & { limits?: Partial<Limits> } = {},
): Promise<UpstreamConnection> {
  return connectUpstream(launchOf(uri), {
    env: process.env,
    folder: process.cwd(),
    clientInfo: { name: "berth-test", version: "1" },
    send,
    ...options,
    limits: { ...defaultLimits, ...options.limits },
  });
}

/** As `connect`, closed after the test. */
export async function connectFor(t: Ending, ...args: Parameters<typeof connect>): Promise<UpstreamConnection> {
  const upstream = await connect(...args);
  t.after(() => upstream.close());
  return upstream;
}

/** Closes it when the work is done, however it ends. */
export async function withUpstream<T>(
  uri: string,
  use: (connection: UpstreamConnection) => Promise<T>,
  options?: Parameters<typeof connect>[1],
): Promise<T> {
  const connection = await connect(uri, options);
  try {
    return await use(connection);
  } finally {
    await connection.close();
  }
}

/** An upstream as callers share it. */
export function openUpstream(uri: string, options: Partial<UpstreamOptions> = {}): Upstream {
  return new Upstream(launchOf(uri), {
    env: process.env,
    folder: process.cwd(),
    clientInfo: { name: "berth-test", version: "1" },
    send,
    limits: defaultLimits,
    onContract: async () => {},
    onResourceUpdated: () => {},
    onLost: () => {},
    onError: () => {},
    ...options,
  });
}
