import { mkdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Dispatcher } from "undici";
import type { RegistryConfig } from "../config.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import { decodeUtf8 } from "../lib/long-text.ts";
import type { Problem } from "../lib/problem.ts";
import { fixed } from "../limits/fixed.ts";
import { limitVariable } from "../limits/limits.ts";
import { sandboxUsage } from "../processes/folder-use.ts";
import { NON_HEAP_MB, NODE_INSIDE, OwnProgram, type Confinement, type OwnCommand } from "../processes/own-program.ts";
import { ProcessGroup, isOutOfMemory, exitSignal, type Exit } from "../processes/process-group.ts";
import { processTree } from "../processes/process-tree.ts";
import { readOnly } from "../processes/sandbox.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import { grantFolder, type MakeFolder } from "../processes/work-folders.ts";
import { refused, type HaveTarball, type SetLimits } from "./fetch-set.ts";
import type { FoundNpm } from "./find-npm.ts";
import type { NpmJob, NpmResult } from "./npm-child.ts";
import { NpmFrameReader } from "./npm-frames.ts";
import { NpmFailed, type Wish } from "./npm-runs.ts";
import { parsePackages, type LockedPackage } from "./package-set.ts";
import { RegistryRelay } from "./registry-relay.ts";
import { setBounds } from "./set-bounds.ts";

/** How long it may take to resolve a set, or to fetch its tarballs. */
export const fetchBounds = fixed({ packageFetchMs: 300_000 });

const bounds = fixed({
  /** The memory of each process of npm, without V8's overhead; and of the folder in which they work. */
  packageFetchMemoryMb: 512,
  packageFetchFolderMb: 768,
});

export interface ConfinedOptions {
  readonly registry: RegistryConfig;
  readonly confinement: Confinement;
  readonly start: Spawn;
  readonly makeFolder: MakeFolder;
  readonly dispatcher: Dispatcher;
  readonly limits: SetLimits;
  /** Called once, with the reason, before npm first runs outside of the sandbox. */
  readonly onTrusted?: (reason: string) => void;
}

/**
 * npm for those who are not trusted. It runs in the sandbox, with an empty home in a folder of limited size that goes
 * with it, no variable of the service, no network, and no program besides itself; all that it reaches is the relay of
 * the registry. What it writes is checked by whoever asked for it.
 */
export class ConfinedNpm {
  readonly #options: ConfinedOptions;
  readonly #running = new Set<() => void>();
  readonly #runs = new Set<Promise<unknown>>();
  #isClosed = false;
  #isTold = false;

  constructor(options: ConfinedOptions) {
    this.#options = options;
  }

  async resolve(npm: FoundNpm, wish: Wish): Promise<{ set?: unknown; problems: readonly Problem[] }> {
    const limits = {
      packagesPerSet: setBounds.packagesPerSet,
      registries: [RELAYED + new URL(this.#options.registry.url).pathname, this.#options.registry.url],
    };
    const result = await this.#run(npm, { kind: "resolve", wish, limits }, async () => {});
    if (!("resolved" in result) || !isObject(result.resolved) || !Array.isArray(result.resolved.problems))
      throw refused("npm wrote nothing that can be read");
    return result.resolved;
  }

  async bring(npm: FoundNpm, packages: readonly LockedPackage[], take: TakeTarball): Promise<void> {
    const asked = packages.map(({ name, version, integrity }) => ({ name, version, integrity }));
    await this.#run(npm, { kind: "pack", packages: asked }, take);
  }

  /** It caches nothing. */
  have(): HaveTarball {
    return () => undefined;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const end of this.#running) end();
    await Promise.allSettled(this.#runs);
    await this.#options.dispatcher.destroy();
  }

  #run(...job: [FoundNpm, NpmJob["task"], TakeTarball]): Promise<NpmResult> {
    const run = this.#runOne(...job).finally(() => this.#runs.delete(run));
    this.#runs.add(run);
    return run;
  }

  async #runOne(npm: FoundNpm, task: NpmJob["task"], take: TakeTarball): Promise<NpmResult> {
    const { makeFolder, registry, dispatcher } = this.#options;
    for (;;) {
      if (this.#isClosed) throw shuttingDown();
      const folder = makeFolder("npm-");
      const relay = new RegistryRelay({ registry, dispatcher });
      try {
        const command = await this.#command(npm, folder);
        const isConfined = command.way !== undefined;
        if (command.way?.user) grantFolder(folder, command.way.user);
        await relay.listen(join(folder, SOCKET), command.way?.user);
        if (!isConfined) mkdirSync(join(folder, "work"));
        const job: NpmJob = {
          task,
          node: isConfined ? NODE_INSIDE : process.execPath,
          cli: npm.cli,
          version: npm.version,
          nodeOptions: [`--max-old-space-size=${bounds.packageFetchMemoryMb}`, "--import", PRELOAD],
          folder: isConfined ? WORK : join(folder, "work"),
          relay: join(isConfined ? OUTSIDE : folder, SOCKET),
          registry: `${RELAYED}${relay.basePath}`,
        };
        const ending = await this.#carryOut(command, job, take);
        if (ending.kind === "unready") {
          const { way } = command;
          if (way && (await program.refused(way, ending))) continue;
          throw new BerthError(
            "packages_unavailable",
            `npm did not start (${ending.said || `exit code ${ending.exitCode}`})`,
          );
        }
        if (command.way) await program.works(command.way);
        return this.#judged(ending, relay);
      } finally {
        await relay.close();
        await rm(folder, { recursive: true, force: true });
      }
    }
  }

  async #command(npm: FoundNpm, folder: string): Promise<OwnCommand> {
    const { confinement } = this.#options;
    const { packageFetchMemoryMb: heapMb, packageFetchFolderMb: folderMb } = bounds;
    const found = await program.command(
      {
        memoryMb: heapMb + NON_HEAP_MB,
        options: ["--v8-pool-size=1", `--max-old-space-size=${heapMb}`],
        env: {},
        sees: [
          ...readOnly(npm.folder),
          ...readOnly(folder, OUTSIDE),
          "--size",
          String(folderMb * MEGABYTE),
          "--tmpfs",
          WORK,
        ],
      },
      confinement,
    );
    if (!("command" in found)) throw new BerthError("packages_unavailable", found.reason);
    if (found.reason !== undefined && !this.#isTold) this.#options.onTrusted?.(found.reason);
    this.#isTold ||= found.reason !== undefined;
    return found;
  }

  /** The result as the child tells it, or an error that says how it ended. The relay knows better why npm failed. */
  #judged(ending: Exclude<Ending, { kind: "unready" }>, relay: RegistryRelay): NpmResult {
    if (ending.kind === "closed") throw shuttingDown();
    if (ending.kind === "time") throw timeIsUp();
    if (ending.kind === "refused") throw ending.error;
    const isDone = ending.kind === "result" && !("failed" in ending.result);
    if (relay.refusal !== undefined && !isDone) throw refused(relay.refusal);
    if (ending.kind === "ended")
      throw new BerthError("packages_unavailable", `npm ended early (${ending.how}); try again`);
    const { result } = ending;
    if (!("failed" in result)) return result;
    const { code, said, package: which } = result.failed;
    if (code === "ENOSPC") {
      throw refused(`npm needs more than ${bounds.packageFetchFolderMb} MB for its files`);
    }
    if (code === "ENOMEM") {
      throw refused(`npm needs more than ${bounds.packageFetchMemoryMb} MB of memory`);
    }
    if (relay.failure !== undefined && code !== "E404" && code !== "ETARGET") {
      const forWhich = which === undefined ? "" : `${which}: `;
      throw new BerthError("packages_unavailable", `${forWhich}${relay.failure}; try again`);
    }
    throw new NpmFailed(code, said, which);
  }

  #carryOut({ command, way }: OwnCommand, job: NpmJob, take: TakeTarball): Promise<Ending> {
    // It may have been closed while the folder was made.
    if (this.#isClosed) return Promise.resolve({ kind: "closed" });
    const { start, limits } = this.#options;
    const reader = new NpmFrameReader({ file: setBounds.packageBytes, result: RESULT_BYTES_MAX });
    return new Promise((resolve) => {
      let verdict: Verdict | undefined;
      let isReady = false;
      let stderr = "";
      let taken: Promise<void> = Promise.resolve();
      let bytes = 0;
      const end = (why: Verdict): void => {
        verdict ??= why;
        group.kill();
      };
      const timer = setTimeout(() => end({ kind: "time" }), fetchBounds.packageFetchMs);
      const looking = setInterval(() => {
        if (way && group.pid !== undefined && (sandboxUsage(processTree(group.pid), WORK)?.files ?? 0) > FILES_MAX)
          end({ kind: "refused", error: refused(`npm wrote more than ${FILES_MAX} files`) });
      }, LOOK_MS);
      const stop = (): void => end({ kind: "closed" });
      this.#running.add(stop);
      const hear = (output: Duplex, chunk: Buffer): void => {
        bytes += chunk.length;
        if (bytes > limits.packageSetBytes + RESULT_BYTES_MAX + FRAMES_BYTES) {
          const limit = limitVariable("packageSetBytes");
          const error = refused(`the tarballs have more than ${limits.packageSetBytes} bytes together (${limit})`);
          return end({ kind: "refused", error });
        }
        for (const { kind, body } of reader.push(chunk)) {
          if (kind === "ready") isReady = true;
          else if (kind === "result") {
            const result = parsePackages(decodeUtf8(body));
            if (!isObject(result)) throw new Error("its result is not one, or has too many values");
            verdict ??= { kind: "result", result: result as NpmResult };
          } else {
            output.pause();
            taken = taken.then(() => take(body)).then(() => void output.resume());
            taken.catch((error: unknown) => end({ kind: "refused", error: error as Error }));
          }
        }
      };
      const group = new ProcessGroup(start, { ...command, niceness: NICENESS }, ["pipe", "pipe", "pipe"], {
        onStarted: ([input, output, errors]) => {
          errors!.on("data", (chunk: Buffer) => {
            if (stderr.length < STDERR_UNITS_MAX) stderr += chunk.toString("utf8");
          });
          output!.on("data", (chunk: Buffer) => {
            try {
              hear(output!, chunk);
            } catch (error) {
              end({ kind: "refused", error: refused(`npm's process broke its protocol: ${(error as Error).message}`) });
            }
          });
          input!.end(JSON.stringify(job));
        },
        onEnded: (exit) => {
          clearTimeout(timer);
          clearInterval(looking);
          this.#running.delete(stop);
          const judge = (): void => {
            if (verdict) return resolve(verdict);
            const how = howOf(exit, stderr);
            if (isReady) return resolve({ kind: "ended", how });
            // Outside of the sandbox there is nothing else to try.
            const exitCode = exit.startError ? 127 : exit.code;
            resolve({ kind: "unready", exitCode, said: way ? said(exit, stderr) : how });
          };
          taken.then(judge, judge);
        },
      });
    });
  }
}

/** Takes a tarball, of which nothing is believed but its bytes. */
export type TakeTarball = (tarball: Uint8Array) => Promise<void>;

function shuttingDown(): BerthError {
  return new BerthError("packages_unavailable", "the service is shutting down");
}

export function timeIsUp(): BerthError {
  return new BerthError("packages_unavailable", `it took more than ${fetchBounds.packageFetchMs} ms; try again`);
}

const program = new OwnProgram({
  name: "npm",
  program: fileURLToPath(new URL("./npm-child.js", import.meta.url)),
  packages: ["@humanwhocodes/momoa", "multiformats", "semver"],
  files: [],
  startsPrograms: true,
});

/** The decision about a run, by the child itself or by the host. */
type Verdict =
  | { readonly kind: "result"; readonly result: NpmResult }
  | { readonly kind: "time" }
  | { readonly kind: "closed" }
  | { readonly kind: "refused"; readonly error: Error };

type Ending =
  | Verdict
  | { readonly kind: "ended"; readonly how: string }
  /** It ended before it began to work. */
  | { readonly kind: "unready"; readonly exitCode: number | null; readonly said: string };

const PRELOAD = new URL("./npm-relayed.js", import.meta.url).href;
/** A host that is nowhere (RFC 2606): every connection leads to the relay. */
const RELAYED = "http://registry.invalid";
const SOCKET = "registry";
/** Folders inside: the one that npm works in, and the one with the relay's socket. */
const WORK = "/sbx/work";
const OUTSIDE = "/sbx/registry";
const MEGABYTE = 1024 * 1024;
/** Who serves goes first. */
const NICENESS = 3;
/** A set of a thousand packages in JSON takes less than a megabyte. */
const RESULT_BYTES_MAX = 2 * MEGABYTE;
const FRAMES_BYTES = MEGABYTE;
/** Its cache has a few files for each package. */
const FILES_MAX = 50_000;
const LOOK_MS = 250;
const STDERR_UNITS_MAX = 4_000;

function howOf(exit: Exit, stderr: string): string {
  if (isOutOfMemory(stderr)) return "it ran out of memory";
  return exitSignal(exit) ?? `exit code ${exit.code}`;
}

function said({ startError }: Exit, stderr: string): string {
  return startError?.message ?? stderr.trim().split("\n")[0]!;
}
