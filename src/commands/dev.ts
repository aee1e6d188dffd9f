import { access, writeFile } from "node:fs/promises";
import { watch } from "chokidar";
import { readConfig } from "../config.ts";
import { startBerth, type Berth } from "../compose/main.ts";
import { DevFiles, fileServers, type FileServer } from "./dev-files.ts";
import { announceServers, reportFailures, reportLines, reportServer } from "./dev-report.ts";
import { starterOf } from "./dev-starter.ts";
import { environmentOf, type StoreOptions } from "./environment.ts";
import { WorkFolders } from "../processes/work-folders.ts";
import { serviceLog } from "./service-log.ts";
import { signalled } from "./signalled.ts";

export interface DevOptions extends Pick<StoreOptions, "data"> {
  readonly port?: string;
  readonly host?: string;
  /** Makes missing files. */
  readonly new?: boolean;
  /** Type errors are reported as errors. */
  readonly strict?: boolean;
}

/** Editors write a file in several steps. */
const SETTLED_MS = 40;

/**
 * `berth dev FILE…`: serves definitions straight from their files, and again whenever one of them, or a file it
 * imports, changes. Without `--data` nothing is kept. Ends with SIGINT, SIGTERM or SIGHUP.
 */
export async function dev(paths: readonly string[], options: DevOptions): Promise<number> {
  const ended = signalled();
  const isStrict = options.strict ?? false;
  if (options.new) await makeStarters(paths);
  const servers = await fileServers(paths);
  const folders = new WorkFolders();
  const folder = options.data ?? folders.make("dev-");
  try {
    const config = readConfig({ BERTH_LOG: "warn", ...environmentOf({ ...options, data: folder }) });
    let files: DevFiles | undefined;
    const berth = await startBerth(config, serviceLog(config), async (store, tenant) => {
      files = new DevFiles(store, tenant, config.limits);
      for (const server of servers) await files.read(server);
    });
    try {
      berth.onCall(reportFailures(servers));
      berth.onLine(reportLines(servers));
      const watching = await watchFiles(berth, servers, files!, isStrict);
      await announceServers(berth, servers, isStrict);
      await ended;
      await watching.close();
    } finally {
      await berth.close();
    }
  } finally {
    await folders.close();
  }
  return 0;
}

async function makeStarters(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const isThere = await access(path).then(
      () => true,
      () => false,
    );
    if (isThere) continue;
    await writeFile(path, starterOf(path), { flag: "wx", mode: path.endsWith(".sh") ? 0o755 : 0o644 });
    console.error(`Made ${path}.`);
  }
}

/** Checks whenever a file changes, or may have changed before it was watched. */
async function watchFiles(
  berth: Berth,
  servers: readonly FileServer[],
  files: DevFiles,
  isStrict: boolean,
): Promise<Watching> {
  const owners = new Map<string, Set<FileServer>>();
  /** Handles one change after the other, so that the report matches what is served. */
  let turn = Promise.resolve();
  const follow = (server: FileServer): void => {
    turn = turn.then(() => serveAgain(server)).catch((error: Error) => console.error(`berth: ${error.message}`));
  };
  const serveAgain = async (server: FileServer): Promise<void> => {
    const read = await files.read(server);
    own(server, read.files);
    if (!read.changed) return;
    await berth.reload();
    await reportServer(berth, server, isStrict);
  };
  const own = (server: FileServer, paths: readonly string[]): void => {
    for (const path of paths) {
      const known = owners.get(path);
      owners.set(path, (known ?? new Set()).add(server));
      if (!known) watcher.add(path);
    }
  };

  const watcher = watch([], { awaitWriteFinish: { stabilityThreshold: SETTLED_MS, pollInterval: 10 } });
  // A newly found file counts as changed too: its state before it was watched is unknown.
  watcher.on("all", (_event, path) => owners.get(path)?.forEach(follow));
  watcher.on("error", (error) => console.error(`berth: ${(error as Error).message}`));
  for (const server of servers) {
    const read = await files.read(server);
    own(server, read.files);
    // It was saved between the first look at it and this one.
    if (read.changed) await berth.reload();
  }
  return {
    async close() {
      await watcher.close();
      await turn;
    },
  };
}

interface Watching {
  close(): Promise<void>;
}
