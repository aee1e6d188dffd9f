import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { npmFrame, type NpmFrame } from "./npm-frames.ts";
import {
  NpmFailed,
  packAll,
  resolveSet,
  type NpmPlace,
  type ResolveLimits,
  type WantedTarball,
  type Wish,
} from "./npm-runs.ts";

/**
 * The program that runs npm for those who are not trusted, in the sandbox: it reads one job, has npm carry it out in a
 * folder of its own, and writes what came of it. Descriptions of packages and locks are read here, too, where they can
 * read nothing and reach nobody but the registry.
 */
export interface NpmJob {
  readonly task:
    | { readonly kind: "resolve"; readonly wish: Wish; readonly limits: ResolveLimits }
    | { readonly kind: "pack"; readonly packages: readonly WantedTarball[] };
  readonly node: string;
  readonly cli: string;
  readonly version: string;
  readonly nodeOptions: readonly string[];
  /** The folder that it may write to. */
  readonly folder: string;
  /** The socket where the registry is, and its address as npm is told it. */
  readonly relay: string;
  readonly registry: string;
}

/** The end of a job, as JSON. */
export type NpmResult =
  | { readonly resolved: Awaited<ReturnType<typeof resolveSet>> }
  | { readonly packed: true }
  | { readonly failed: { readonly code: string; readonly said: string; readonly package?: string } };

write({ kind: "ready" });
const job = JSON.parse(await text(process.stdin)) as NpmJob;
const result = Buffer.from(JSON.stringify(await carryOut(job)));
await writeBody({ kind: "result", bytes: result.length }, result);

async function carryOut({ task, ...how }: NpmJob): Promise<NpmResult> {
  try {
    const place = await placeOfJob(how);
    if (task.kind === "resolve") return { resolved: await resolveSet(place, task.wish, task.limits) };
    await packAll(place, task.packages, (tarball) => writeBody({ kind: "file", bytes: tarball.length }, tarball));
    return { packed: true };
  } catch (error) {
    const failed = error instanceof NpmFailed ? error : undefined;
    const { code = "NONE", message } = error as NodeJS.ErrnoException;
    const said = failed ? message : `npm could not be run (${code})`;
    return { failed: { code, said, ...(failed?.package !== undefined && { package: failed.package }) } };
  }
}

async function placeOfJob({ folder, relay, registry, ...npm }: Omit<NpmJob, "task">): Promise<NpmPlace> {
  const [scratch, nothing] = [join(folder, "scratch"), join(folder, "nothing")];
  const cwd = join(folder, "empty");
  for (const each of [scratch, cwd]) await mkdir(each);
  return {
    ...npm,
    options: [
      `--registry=${registry}`,
      "--replace-registry-host=always",
      `--userconfig=${nothing}`,
      `--globalconfig=${nothing}-either`,
      `--git=${nothing}`,
      "--fetch-retries=2",
      "--fetch-retry-mintimeout=500",
      "--fetch-retry-maxtimeout=4000",
      "--maxsockets=8",
    ],
    env: { PATH: nothing, TMPDIR: scratch, BERTH_RELAY: relay },
    scratch,
    cwd,
    ownCache: true,
  };
}

function write(frame: NpmFrame): void {
  process.stdout.write(npmFrame(frame));
}

/** Bodies follow their heads at once, also where several runs of npm end at the same time. */
async function writeBody(frame: NpmFrame, body: Uint8Array): Promise<void> {
  process.stdout.write(npmFrame(frame));
  await new Promise<void>((resolve) => process.stdout.write(body, () => resolve()));
}
