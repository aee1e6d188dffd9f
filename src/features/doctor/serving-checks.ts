import { createServer } from "node:net";
import { join } from "node:path";
import { type Config, isLoopback, packageRoot } from "../../config.ts";
import { degraded, failed, type Diagnosis, pass } from "./finding.ts";
import { compareClocks } from "./host-checks.ts";

/** How long an address may take to answer. */
const ANSWER_MS = 5_000;
const POSTGRES_LEAST = 13;

/** The store's library or database. */
export async function checkStore({ database }: Pick<Config, "database">): Promise<Diagnosis[]> {
  if (database !== undefined) return checkPostgres(database);
  const check = "SQLite";
  try {
    const { default: Database } = await import("#better-sqlite3");
    const memory = new Database(":memory:");
    const { version } = memory.prepare("SELECT sqlite_version() AS version").get() as { version: string };
    memory.close();
    return [pass(check, `version ${version}`)];
  } catch (error) {
    const message = (error as Error).message.split("\n")[0]!;
    return [failed(check, message, `node "${join(packageRoot, "sqlite", "install.mjs")}"`)];
  }
}

async function checkPostgres(url: string): Promise<Diagnosis[]> {
  const { PostgresDatabase, isUnencrypted } = await import("../../store/postgres/database.ts");
  const check = "Postgres";
  const connection = new PostgresDatabase(url, undefined, ANSWER_MS, 1);
  try {
    const began = performance.now();
    const [row] = await connection.run<{ version: string; now: string }>(
      "SELECT current_setting('server_version') AS version, (extract(epoch FROM clock_timestamp()) * 1000)::text AS now",
    );
    const ms = performance.now() - began;
    const { version, now } = row!;
    const message = `version ${version}, answers in ${Math.round(ms)} ms`;
    const clock = compareClocks(0, Number(now) + ms / 2 - Date.now());
    if (Number.parseInt(version) < POSTGRES_LEAST)
      return [failed(check, message, `upgrade Postgres to ${POSTGRES_LEAST} or newer`), clock];
    if (isUnencrypted(url)) {
      const fix = "append ?sslmode=verify-full to BERTH_DATABASE";
      return [degraded(check, `${message}, without TLS`, fix), clock];
    }
    return [pass(check, message), clock];
  } catch (error) {
    const fix = 'correct BERTH_DATABASE, or start the database: pg_isready -d "$BERTH_DATABASE"';
    return [failed(check, (error as Error).message, fix)];
  } finally {
    await connection.close();
  }
}

/** The port, which may be Berth's own already. */
export async function checkPort({ host, port }: Pick<Config, "host" | "port">): Promise<Diagnosis> {
  const check = "port";
  const server = createServer().listen(port, host);
  const error = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    server.once("listening", () => resolve(undefined)).once("error", resolve);
  });
  server.close();
  if (!error) return pass(check, `${host} port ${port} is free`);
  const isServing = (await statusAt(`http://${urlHost(host)}:${port}/healthz`)) === 200;
  if (isServing) return pass(check, `a service with /healthz, such as Berth, has ${host} port ${port}`);
  const fix =
    error.code === "EACCES"
      ? "set BERTH_PORT to 1024 or higher, and let a proxy listen on the low port"
      : "set BERTH_PORT or BERTH_HOST, or end the program that ss -ltnp shows";
  return failed(check, error.message, fix);
}

function urlHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** Compares the proxy with `BERTH_PUBLIC_URL`, asked through the proxy if Berth runs. */
export async function checkProxy({ publicUrl, host, allowedHosts }: Config): Promise<Diagnosis> {
  const check = "public URL";
  if (publicUrl === undefined) {
    if (isLoopback(host) && allowedHosts.length === 0) return pass(check, "not set: Berth serves this machine");
    const message = "BERTH_PUBLIC_URL is not set, so pages and sign-in name the address of each request";
    return degraded(check, message, "set BERTH_PUBLIC_URL=https://mcp.example.com, the address that clients use");
  }
  if (publicUrl.startsWith("http:") && !isLoopback(new URL(publicUrl).hostname)) {
    const message = `${publicUrl} is not encrypted, and requests contain tokens`;
    return degraded(check, message, "set up TLS in the proxy, and https:// in BERTH_PUBLIC_URL");
  }
  const alive = await statusAt(`${publicUrl}/healthz`);
  if (alive !== 200) {
    const message = `${publicUrl}/healthz does not answer (${alive ?? "no connection"}), unless Berth is stopped`;
    return degraded(check, message, `let the proxy forward to http://${urlHost(host)}, and start Berth`);
  }
  // The guard of Berth compares this Origin with the Host that the proxy passes on.
  if ((await statusAt(`${publicUrl}/mcp`, { Origin: publicUrl })) === 403) {
    const message = `the proxy at ${publicUrl} passes on another Host`;
    return failed(check, message, "nginx: proxy_set_header Host $http_host; HAProxy, Caddy: no Host rules");
  }
  return pass(check, `${publicUrl} reaches Berth with its Host`);
}

async function statusAt(url: string, headers: Readonly<Record<string, string>> = {}): Promise<number | undefined> {
  try {
    const answer = await fetch(url, { headers, redirect: "manual", signal: AbortSignal.timeout(ANSWER_MS) });
    await answer.body?.cancel();
    return answer.status;
  } catch {
    return undefined;
  }
}
