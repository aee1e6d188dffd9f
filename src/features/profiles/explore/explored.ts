import type { CallOptions } from "../../../host/offers/catalog.ts";
import { HostedUpstream, type OpenUpstream } from "../../../host/upstreams/hosted.ts";
import type { SuspendedLimits } from "../../../host/upstreams/upstream-call.ts";
import { BerthError } from "../../../lib/errors.ts";
import type { Json } from "../../../lib/json.ts";
import type { Log } from "../../../lib/log.ts";
import { fixed } from "../../../limits/fixed.ts";
import { invalidLauncher } from "../../../upstream/launch/command.ts";
import { launchLocation, type Launch } from "../../../upstream/launch/launch.ts";
import { parseLauncher } from "../../../upstream/launch/launcher-uri.ts";
import { profileLaunch } from "../launch.ts";
import { readProfile, type ProfileFolder } from "../locate.ts";
import { parseReference } from "../resolve.ts";

/** Upstreams that stay connected for the clients that explore them. */
const bounds = fixed({ exploredServers: 8 });

export interface ExploreSurroundings {
  readonly open: OpenUpstream;
  readonly limits: SuspendedLimits;
  readonly log: Log;
  readonly folders: readonly ProfileFolder[];
  readonly env: NodeJS.ProcessEnv;
}

/** An explored server, and the calls that worked on it. */
export interface Explored {
  readonly hosted: HostedUpstream;
  /** Inputs known to work, by tool, latest first. */
  readonly inputs: Map<string, Json[]>;
}

/**
 * Upstreams being explored. They stay connected between calls, so that a model does not start a program each time. An
 * idle one is ended, and restarted by its next call.
 */
export class ExploredServers {
  readonly #surroundings: ExploreSurroundings;
  /** By launch, least recently used first. */
  readonly #servers = new Map<string, Explored>();

  constructor(surroundings: ExploreSurroundings) {
    this.#surroundings = surroundings;
  }

  /**
   * Starts or finds the upstream named by a launcher URI or `@profile`. Rejects as a connection does, or with
   * `upstream_busy`.
   */
  async open(reference: string, options: CallOptions): Promise<Explored> {
    const launch = await this.#launchOf(reference);
    const key = JSON.stringify(launch);
    const known = this.#servers.get(key);
    if (!known) await this.#makeRoom();
    const explored = known ?? { hosted: this.#hosted(launch), inputs: new Map<string, Json[]>() };
    this.#servers.delete(key);
    this.#servers.set(key, explored);
    await started(explored, options);
    return explored;
  }

  async close(): Promise<void> {
    await Promise.all(Array.from(this.#servers.values(), ({ hosted }) => hosted.upstream.close()));
    this.#servers.clear();
  }

  async #launchOf(reference: string): Promise<Launch> {
    if (reference.startsWith("@")) {
      const { name, tool } = parseReference(reference);
      if (tool !== undefined) throw new BerthError("launcher_invalid", "name the tool in the argument tool");
      return profileLaunch(await readProfile(name, this.#surroundings.folders), this.#surroundings.env);
    }
    const parsed = parseLauncher(reference);
    if (parsed.problems) throw invalidLauncher(parsed.problems);
    const { target, arguments: given } = parsed.operation;
    if (target || given.texts.length > 0 || Object.keys(given.json).length > 0) {
      const detail = "the URI only says how to reach the server; give the tool and its arguments beside it";
      throw new BerthError("launcher_invalid", detail);
    }
    return parsed.launch;
  }

  #hosted(launch: Launch): HostedUpstream {
    const { open, limits, log } = this.#surroundings;
    return new HostedUpstream(launch, open, limits, {
      // Upstreams may offer less to clients that cannot answer questions. A profile records what commands see, and they
      // cannot.
      capabilities: {},
      onChange: () => {},
      onProblems: () => {},
      onResourceUpdated: () => {},
      onLost: ({ reason }) =>
        log.warn({ server: launch.name, upstream: launchLocation(launch), reason }, "an explored server has ended"),
      onError: (error) =>
        log.warn(
          { err: error, server: launch.name, upstream: launchLocation(launch) },
          "an explored server cannot be explored again",
        ),
    });
  }

  async #makeRoom(): Promise<void> {
    const { exploredServers } = bounds;
    if (this.#servers.size < exploredServers) return;
    const unused = [...this.#servers].find(([, { hosted }]) => hosted.upstream.health.requests === 0);
    if (!unused)
      throw new BerthError("upstream_busy", `${exploredServers} servers are being explored, and all are in use`);
    this.#servers.delete(unused[0]);
    await unused[1].hosted.upstream.close();
  }
}

const TOLD_EVERY_MS = 1000;

/** Starts the server and reports progress: a first start installs it and may take minutes. */
async function started({ hosted: { upstream } }: Explored, { onProgress }: CallOptions): Promise<void> {
  let seconds = 0;
  const tell = (): void => {
    seconds += 1;
    // Stays below any progress that the tool itself reports.
    void onProgress?.({
      progress: seconds / 1000,
      message: `installing or starting ${upstream.launch.name} … ${seconds} s`,
    });
  };
  const timer = onProgress && upstream.health.state !== "running" ? setInterval(tell, TOLD_EVERY_MS) : undefined;
  try {
    await upstream.start();
  } finally {
    clearInterval(timer);
  }
}
