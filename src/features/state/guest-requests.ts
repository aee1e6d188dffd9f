import { LaterAnswer, type HostAnswer } from "../../executor/executor.ts";
import type { GuestRequests, Requester } from "../../host/serving/guest-port.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { limitVariable } from "../../limits/limits.ts";
import { valueBounds } from "../../limits/value-bounds.ts";
import type { ValueEntry, ValueItem, ValueRoom } from "../../store/store.ts";
import { keyProblem, serverLimits, valueProblem } from "../../store/value-rules.ts";
import type { FeatureCore } from "../feature.ts";

/** The kind of the values of this feature. */
export const KIND = "state";

/** The limits of what servers store, in this process. */
export interface StateRules {
  readonly roomOf: (tenant: string) => ValueRoom;
  /** False on a read-only instance. */
  readonly writable: boolean;
  /** Milliseconds since the epoch by the clock of the store, by which values expire. */
  readonly now: () => number;
}

export function stateRules({
  store,
  limits,
  limitsOf,
  writable,
}: Pick<FeatureCore, "store" | "limits" | "limitsOf" | "writable">): StateRules {
  const roomOf = (tenant: string): ValueRoom => {
    const { stateBytes, storedBytes } = limitsOf(tenant);
    return {
      keysPerServer: valueBounds.valuesPerServer,
      bytesPerServer: limits[serverLimits[KIND]],
      bytesPerTenant: stateBytes,
      storedBytesMax: storedBytes,
      code: "state_full",
      settings: {
        server: limitVariable(serverLimits[KIND]),
        tenant: "BERTH_STATE_BYTES_PER_TENANT, or the tenant's own limit stateBytes",
      },
    };
  };
  return { roomOf, writable, now: () => store.now() };
}

/** The host sends one longer answer at a time. */
const SHORT_BYTES = 8 * 1024;

/**
 * Answers requests of a server's code for its own state. Every request goes to the store, so it fails (`store_failed`)
 * when the store does.
 *
 * - `stateGet`: `{key}` → `{version, changedAt, expiresAt?, json | base64}`, or null when there is none.
 * - `stateSet`: `{key, json | base64, expected?, expiresInMs?}` → the new version, or null when the version is another.
 * - `stateDelete`: `{key, expected?}` → true; false when there is none, or its version is another.
 * - `stateList`: `{prefix?, after?, limit?, values?}` → `{items, next?}`, each item with its key and its bytes.
 */
export function stateRequests({ roomOf, writable, now }: StateRules): GuestRequests {
  const mayWrite = (): void => {
    if (!writable) throw new BerthError("read_only", "its servers can read their state, and not change it");
  };

  async function get({ tenant, server, store }: Requester, params: JsonObject): Promise<HostAnswer> {
    const entry = await store.values.get(tenant, KIND, server, keyIn(params));
    if (!entry) return null;
    if (entry.value.length <= SHORT_BYTES) return viewOf(entry);
    return new LaterAnswer("json", async () => Buffer.from(JSON.stringify(viewOf(entry))));
  }

  async function set({ tenant, server, store }: Requester, params: JsonObject): Promise<HostAnswer> {
    const key = keyIn(params);
    mayWrite();
    const { isJson, value } = valueIn(params);
    const problem = valueProblem(KIND, isJson, value);
    if (problem !== undefined)
      throw new BerthError("state_invalid", `the value for ${JSON.stringify(key)}: ${problem}`);
    const expected = optionalNumber(params, "expected");
    const expiresAt = expiryOf(optionalNumber(params, "expiresInMs"), now());
    const room = roomOf(tenant);
    return (await store.values.set(tenant, KIND, server, key, { value, isJson, expected, expiresAt, room })) ?? null;
  }

  async function remove({ tenant, server, store }: Requester, params: JsonObject): Promise<HostAnswer> {
    const key = keyIn(params);
    mayWrite();
    const expected = optionalNumber(params, "expected");
    return (await store.values.delete(tenant, KIND, server, key, { expected })) ?? false;
  }

  async function list({ tenant, server, store }: Requester, params: JsonObject): Promise<HostAnswer> {
    const { prefix = "", after, values = false } = params;
    if (typeof prefix !== "string" || (after !== undefined && typeof after !== "string")) {
      throw new TypeError('"prefix" and "after" of a list of state are strings');
    }
    for (const text of [prefix, after ?? ""]) if (text !== "") checkKey(text);
    const { valueListKeys, valueListBytes } = valueBounds;
    const wanted = optionalNumber(params, "limit") ?? valueListKeys;
    if (wanted < 1) throw new TypeError('"limit" of a list of state is at least 1');
    const max = Math.min(wanted, valueListKeys);
    const valueBytesMax = values === true ? valueListBytes : undefined;
    return new LaterAnswer("json", async () => {
      const { items, next } = await store.values.list(tenant, KIND, server, { prefix, after, max, valueBytesMax });
      return Buffer.from(JSON.stringify({ items: items.map(itemView), next }));
    });
  }

  return { stateGet: get, stateSet: set, stateDelete: remove, stateList: list };
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
  const problem = keyProblem(KIND, key);
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

function viewOf({ version, changedAt, expiresAt, isJson, value }: ValueEntry): JsonObject {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const kept: JsonObject = isJson ? { json: bytes.toString("utf8") } : { base64: bytes.toString("base64") };
  return { version, changedAt, ...(expiresAt !== null && { expiresAt }), ...kept };
}

function itemView({ key, bytes, value, ...facts }: ValueItem): JsonObject {
  if (value) return { key, bytes, ...viewOf({ ...facts, value }) };
  const { version, changedAt, expiresAt } = facts;
  return { key, bytes, version, changedAt, ...(expiresAt !== null && { expiresAt }) };
}
