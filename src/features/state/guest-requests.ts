import { LaterAnswer, type HostAnswer } from "../../executor/executor.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import { stateBounds, stateKeyProblem, stateValueProblem } from "../../store/state-rules.ts";
import type { StateEntry, StateItem, StateRoom, StateStore } from "../../store/store.ts";

/**
 * The state that a server keeps under its own name, for its code. Tenant and server are fixed here: no message can name
 * another. Every request goes to the store, so that it fails (`store_failed`) when the store does.
 *
 * - `stateGet`: `{key}` → `{version, changedAt, expiresAt?, json | base64}`, or null when there is none.
 * - `stateSet`: `{key, json | base64, expected?, expiresInMs?}` → the new version, or null when the version is another.
 * - `stateDelete`: `{key, expected?}` → true; false when there is none, or its version is another.
 * - `stateList`: `{prefix?, after?, limit?, values?}` → `{items, next?}`, each item with its key and its bytes.
 */
export interface StateRules {
  readonly roomOf: (tenant: string) => StateRoom;
  /** False on a read-only instance. */
  readonly writable: boolean;
  /** Milliseconds since the epoch by the clock of the store, by which values expire. */
  readonly now: () => number;
}

export type StateRoomLimits = Pick<Limits, "stateBytesPerServer" | "stateBytesPerTenant">;

export function stateRules(dependencies: {
  readonly limits: StateRoomLimits;
  readonly stateBytesOf?: ((tenant: string) => number) | undefined;
  readonly storedBytesOf?: ((tenant: string) => number) | undefined;
  readonly writable: boolean;
  readonly store: { now(): number };
}): StateRules {
  const { store, limits, stateBytesOf, storedBytesOf, writable } = dependencies;
  const { stateBytesPerServer, stateBytesPerTenant } = limits;
  const roomOf = (tenant: string): StateRoom => ({
    keysPerServer: stateBounds.stateKeysPerServer,
    bytesPerServer: stateBytesPerServer,
    bytesPerTenant: stateBytesOf?.(tenant) ?? stateBytesPerTenant,
    storedBytesMax: storedBytesOf?.(tenant),
  });
  return { roomOf, writable, now: () => store.now() };
}

export type StateRequest = "stateGet" | "stateSet" | "stateDelete" | "stateList";

/** A longer answer is written in its turn. */
const SHORT_BYTES = 8 * 1024;

export function guestState(tenant: string, server: string, store: StateStore, rules: StateRules) {
  const { roomOf, writable, now } = rules;
  const mayWrite = (): void => {
    if (!writable) throw new BerthError("read_only", "its servers can read their state, and not change it");
  };

  async function get(key: string): Promise<HostAnswer> {
    const entry = await store.get(tenant, server, key);
    if (!entry) return null;
    if (entry.value.length <= SHORT_BYTES) return viewOf(entry);
    return new LaterAnswer("json", async () => Buffer.from(JSON.stringify(viewOf(entry))));
  }

  async function set(key: string, params: JsonObject): Promise<HostAnswer> {
    mayWrite();
    const { isJson, value } = valueIn(params);
    const problem = stateValueProblem({ isJson, bytes: value });
    if (problem !== undefined)
      throw new BerthError("state_invalid", `the value for ${JSON.stringify(key)}: ${problem}`);
    const expected = optionalNumber(params, "expected");
    const expiresAt = expiryOf(optionalNumber(params, "expiresInMs"), now());
    const room = roomOf(tenant);
    return (await store.set(tenant, server, key, { value, isJson, expected, expiresAt, room })) ?? null;
  }

  async function list(params: JsonObject): Promise<HostAnswer> {
    const { prefix = "", after, values = false } = params;
    if (typeof prefix !== "string" || (after !== undefined && typeof after !== "string")) {
      throw new TypeError('"prefix" and "after" of a list of state are strings');
    }
    for (const text of [prefix, after ?? ""]) if (text !== "") checkKey(text);
    const { stateListKeys, stateListBytes } = stateBounds;
    const wanted = optionalNumber(params, "limit") ?? stateListKeys;
    if (wanted < 1) throw new TypeError('"limit" of a list of state is at least 1');
    const max = Math.min(wanted, stateListKeys);
    const valueBytesMax = values === true ? stateListBytes : undefined;
    return new LaterAnswer("json", async () => {
      const { items, next } = await store.list(tenant, server, { prefix, after, max, valueBytesMax });
      return Buffer.from(JSON.stringify({ items: items.map(itemView), next }));
    });
  }

  return async (op: StateRequest, params: JsonObject): Promise<HostAnswer> => {
    if (op === "stateList") return list(params);
    const key = keyIn(params);
    switch (op) {
      case "stateGet":
        return get(key);
      case "stateSet":
        return set(key, params);
      case "stateDelete": {
        mayWrite();
        const expected = optionalNumber(params, "expected");
        return (await store.delete(tenant, server, key, { expected })) ?? false;
      }
    }
  };
}

/** The time at which something expires that lasts this long; null for ever. */
function expiryOf(expiresInMs: number | undefined, now: number): number | null {
  if (expiresInMs === undefined) return null;
  if (expiresInMs < 1 || expiresInMs > LASTS_MS_MAX) {
    throw new TypeError(`"expiresInMs" is a number of milliseconds from 1 to ${LASTS_MS_MAX}`);
  }
  return now + expiresInMs;
}

/** A thousand years: what lasts longer is not to expire. */
const LASTS_MS_MAX = 1_000 * 365 * 24 * 3_600_000;

function keyIn({ key }: JsonObject): string {
  if (typeof key !== "string") throw new TypeError("a key of state is a string");
  checkKey(key);
  return key;
}

function checkKey(key: string): void {
  const problem = stateKeyProblem(key);
  if (problem !== undefined) throw new BerthError("state_invalid", problem);
}

function valueIn({ json, base64 }: JsonObject): { readonly isJson: boolean; readonly value: Uint8Array } {
  if (typeof json === "string") return { isJson: true, value: Buffer.from(json) };
  if (typeof base64 === "string") return { isJson: false, value: Buffer.from(base64, "base64") };
  throw new TypeError("a value of state is JSON or bytes");
}

function optionalNumber(params: JsonObject, name: string): number | undefined {
  const value = params[name];
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  throw new TypeError(`"${name}" must be a whole number`);
}

function viewOf({ version, changedAt, expiresAt, isJson, value }: StateEntry): JsonObject {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const kept: JsonObject = isJson ? { json: bytes.toString("utf8") } : { base64: bytes.toString("base64") };
  return { version, changedAt, ...(expiresAt !== null && { expiresAt }), ...kept };
}

function itemView({ key, bytes, value, ...facts }: StateItem): JsonObject {
  if (value) return { key, bytes, ...viewOf({ ...facts, value }) };
  const { version, changedAt, expiresAt } = facts;
  return { key, bytes, version, changedAt, ...(expiresAt !== null && { expiresAt }) };
}
