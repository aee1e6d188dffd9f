import { strict as assert } from "node:assert";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import type { CallShape } from "../../src/discover/discovery.ts";
import {
  DeferredAnswer,
  type Executor,
  type GuestCall,
  type GuestFailure,
  type GuestOutcome,
  type GuestProgram,
  type HostPort,
  type ScriptRun,
} from "../../src/executor/executor.ts";
import { openExecutor } from "../../src/executor/open-executor.ts";
import type { Json, JsonObject } from "../../src/lib/json.ts";
import { defaultLimits, type Limits } from "../../src/limits/limits.ts";
import { parseAllowedHost } from "../../src/network/allow-list.ts";
import { SocketRelay } from "../../src/network/socket-relay.ts";
import { spawnDirectly } from "../../src/processes/spawn/spawn.ts";
import { makeTemporary } from "../../src/processes/work-folders.ts";
import { commandOf, descendants, memoryOf } from "./processes.ts";
import { until } from "./until.ts";

/** The common parts of the executor's tests: guests that are really bundled, and short ways to call them. */
export interface Rig {
  readonly executor: Executor;
  /** The outcome of one call of the friendly guest, or of another program. */
  call(
    shape: CallShape,
    args?: JsonObject,
    options?: Partial<GuestCall> & { program?: GuestProgram },
  ): Promise<GuestOutcome>;
  /** The value of a call that has to succeed. */
  value(shape: CallShape, args?: JsonObject, options?: Partial<GuestCall> & { program?: GuestProgram }): Promise<Json>;
  close(): Promise<void>;
}

export type Mode = "sandboxed" | "trusted";

const fixtures = fileURLToPath(new URL("../../../test/fixtures/guests/", import.meta.url));
const bundles = new Map<string, string>();
let lastBundle = 0;

export async function openRig(mode: Mode, limits: Partial<Limits> = {}): Promise<Rig> {
  // As in Berth: each guest has a place for its way out, whether its program may reach anything or not.
  const network = new SocketRelay({ start: spawnDirectly, makeFolder: makeTemporary, limits: defaultLimits });
  const executor = await openExecutor({
    mode,
    limits: { ...defaultLimits, guestSpareProcesses: 0, ...limits },
    network,
  });
  assert.equal(executor.isolation, mode);
  const friendly = programOf("friendly");
  const call: Rig["call"] = (shape, args = {}, { program = friendly, ...options } = {}) =>
    executor.call(program, { shape, args, deadlineMs: 60_000, ...options });
  return {
    executor,
    call,
    value: async (shape, args, options) => valueOf(await call(shape, args, options)),
    async close() {
      await executor.close();
      await network.close();
    },
  };
}

/** A rig for the tests of a `describe`. */
export function useRig(mode: Mode, limits: Partial<Limits> = {}): Rig {
  let rig: Rig;
  before(async () => (rig = await openRig(mode, limits)));
  after(async () => {
    await rig.close();
    await assertNothingLeft();
  });
  return {
    get executor() {
      return rig.executor;
    },
    call: (...given) => rig.call(...given),
    value: (...given) => rig.value(...given),
    close: () => rig.close(),
  };
}

export function scriptRun(script: string, more: Partial<ScriptRun> = {}): ScriptRun {
  return { tenant: "default", script, argv: [], env: {}, deadlineMs: 60_000, ...more };
}

/** A fixture as a program of its own: every call returns another bundle name, so that no two tests share a process. */
export function programOf(fixture: string, tenant = "default", port: HostPort = testPort): GuestProgram {
  let code = bundles.get(fixture);
  if (code === undefined) bundles.set(fixture, (code = bundle(fixture)));
  return programWith(code, tenant, port);
}

export function programWith(code: string, tenant = "default", port?: HostPort): GuestProgram {
  return { tenant, bundle: `bundle-${++lastBundle}`, code: () => Promise.resolve(code), ...(port && { port }) };
}

/** The network of a program of the server `report`, whose entry lists these hosts, at private addresses, too. */
export function networkOf(...hosts: string[]): NonNullable<GuestProgram["network"]> {
  const listed = hosts.map((text) => {
    const host = parseAllowedHost(text);
    return typeof host === "string" ? assert.fail(host) : host;
  });
  const grant = { tenant: "default", server: "report", hosts: listed, privateToo: true, privateHosts: [] };
  return { server: "report", grant: () => (listed.length > 0 ? grant : undefined) };
}

export function shape(name: string, params: string[] = [], more: Partial<CallShape> = {}): CallShape {
  return { export: name, style: "positional", params, ...more };
}

export function valueOf(outcome: GuestOutcome): Json {
  assert.ok(outcome.ok, `the call failed: ${JSON.stringify(outcome)}`);
  switch (outcome.value.kind) {
    case "none":
      return null;
    case "text":
      return outcome.value.text;
    case "json":
      return outcome.value.value;
    case "bytes":
      return outcome.value.base64;
    case "redirect":
      return outcome.value.location;
    case "asks":
      return outcome.value.inputRequests as unknown as Json;
    case "unread":
      return Buffer.from(outcome.value.frame).toString();
  }
}

export function failureOf(outcome: { ok: boolean }): GuestFailure {
  assert.equal(outcome.ok, false, `the call did not fail: ${JSON.stringify(outcome)}`);
  return (outcome as { ok: false; error: GuestFailure }).error;
}

export const testPort: HostPort = {
  request(operation, params) {
    if (operation === "cid") {
      return Promise.resolve(new DeferredAnswer("bytes", () => Promise.resolve(Buffer.from("content"))));
    }
    if (params["name"] === "refused") return Promise.reject(new Error("you may not read this"));
    if (params["name"] === "missing") return Promise.resolve(null);
    return Promise.resolve(`${operation} ${params["name"] as string}`);
  },
};

/** A promise and the function that resolves it. */
export function latch<T>(): { promise: Promise<T>; open: (value: T) => void } {
  let open!: (value: T) => void;
  const promise = new Promise<T>((resolve) => (open = resolve));
  return { promise, open };
}

/** The peak memory of the largest descendant, in megabytes. */
export function largestMb(): number {
  return Math.max(0, ...descendants().map((pid) => memoryOf(pid).peakMb));
}

/** For an `after` hook, when every executor is closed. */
export async function assertNothingLeft(): Promise<void> {
  const left = (): string[] =>
    descendants()
      .map(commandOf)
      .filter((command) => command !== "");
  await until(() => left().length === 0, "no process is left behind").catch(() => {
    assert.deepEqual(left(), [], "processes were left behind");
  });
}

function bundle(fixture: string): string {
  const { outputFiles } = buildSync({
    entryPoints: [`${fixtures}${fixture}.ts`],
    absWorkingDir: fixtures,
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    sourcemap: "inline",
  });
  return outputFiles[0]!.text;
}
