import { DeferredAnswer, type HostAnswer } from "../../executor/executor.ts";
import type { GuestRequests, Requester } from "../../host/serving/guest-port.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { limitVariable } from "../../limits/limits.ts";
import { valueBounds } from "../../limits/value-bounds.ts";
import type { ValueEntry, ValueItem, ValueQuota } from "../../store/store.ts";
import { keyProblem, serverLimits, valueProblem } from "../../store/value-rules.ts";
import type { FeatureCore } from "../feature.ts";

/** The kind of this feature's values in the store. */
export const KIND = "state";

/** The limits on what servers store. */
export interface StateRules {
  readonly quotaFor: (tenant: string) => ValueQuota;
  /** False on a read-only instance. */
  readonly writable: boolean;
  /** Milliseconds since the epoch by the store's clock, by which values expire. */
  readonly now: () => number;
}

export function stateRules({
  store,
  limits,
  limitsOf,
  writable,
}: Pick<FeatureCore, "store" | "limits" | "limitsOf" | "writable">): StateRules {
  const quotaFor = (tenant: string): ValueQuota => {
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
  return { quotaFor: quotaFor, writable, now: () => store.now() };
}

/** Longer answers are sent to the guest one at a time. */
const SHORT_BYTES = 8 * 1024;

/**
 * Handles requests of a server's code for its own state. Every request reads or writes the store, so it fails with
 * `store_failed` when the store does.
 *
 * - `stateGet`: `{key}` → `{version, changedAt, expiresAt?, json | base64}`, or null if there is none.
 * - `stateSet`: `{key, json | base64, expected?, expiresInMs?}` → the new version, or null if the version differs.
 * - `stateDelete`: `{key, expected?}` → true; false if there is none, or its version differs.
 * - `stateList`: `{prefix?, after?, limit?, values?}` → `{items, next?}`, each item with its key and its size.
 */
export function stateRequests({ quotaFor, writable, now }: StateRules): GuestRequests {
  const mayWrite = (): void => {
    if (!writable) throw new BerthError("read_only", "servers can read their state but not change it");
  };

  async function get({ tenant, server, store }: Requester, params: JsonObject): Promise<HostAnswer> {
    const entry = await store.values.get(tenant, KIND, server, readKey(params));
    if (!entry) return null;
    if (entry.value.length <= SHORT_BYTES) return toView(entry);
    return new DeferredAnswer("json", async () => Buffer.from(JSON.stringify(toView(entry))));
  }

  async function set({ tenant, server, store }: Requester, params: JsonObject): Promise<HostAnswer> {
    const key = readKey(params);
    mayWrite();
    const { isJson, value } = readValue(params);
    const problem = valueProblem(KIND, isJson, value);
    if (problem !== undefined)
      throw new BerthError("state_invalid", `the value for ${JSON.stringify(key)}: ${problem}`);
    const expected = optionalNumber(params, "expected");
    const expiresAt = toExpiry(optionalNumber(params, "expiresInMs"), now());
    const quota = quotaFor(tenant);
    return (
      (await store.values.set(tenant, KIND, server, key, { value, isJson, expected, expiresAt, room: quota })) ?? null
    );
  }

  async function remove({ tenant, server, store }: Requester, params: JsonObject): Promise<HostAnswer> {
    const key = readKey(params);
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
    const limit = optionalNumber(params, "limit") ?? valueListKeys;
    if (limit < 1) throw new TypeError('"limit" of a list of state is at least 1');
    const max = Math.min(limit, valueListKeys);
    const valueBytesMax = values === true ? valueListBytes : undefined;
    return new DeferredAnswer("json", async () => {
      const { items, next } = await store.values.list(tenant, KIND, server, { prefix, after, max, valueBytesMax });
      return Buffer.from(JSON.stringify({ items: items.map(itemView), next }));
    });
  }

  return { stateGet: get, stateSet: set, stateDelete: remove, stateList: list };
}

/** The time at which something expires that lasts this long; null if it never does. */
function toExpiry(expiresInMs: number | undefined, now: number): number | null {
  if (expiresInMs === undefined) return null;
  if (expiresInMs < 1 || expiresInMs > EXPIRES_IN_MS_MAX) {
    throw new TypeError(`"expiresInMs" is a number of milliseconds from 1 to ${EXPIRES_IN_MS_MAX}`);
  }
  return now + expiresInMs;
}

/** A thousand years; values that should last longer must not expire. */
const EXPIRES_IN_MS_MAX = 1_000 * 365 * 24 * 3_600_000;

function readKey({ key }: JsonObject): string {
  if (typeof key !== "string") throw new TypeError("a key of state is a string");
  checkKey(key);
  return key;
}

function checkKey(key: string): void {
  const problem = keyProblem(KIND, key);
  if (problem !== undefined) throw new BerthError("state_invalid", problem);
}

function readValue({ json, base64 }: JsonObject): { readonly isJson: boolean; readonly value: Uint8Array } {
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

function toView({ version, changedAt, expiresAt, isJson, value }: ValueEntry): JsonObject {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const content: JsonObject = isJson ? { json: bytes.toString("utf8") } : { base64: bytes.toString("base64") };
  return { version, changedAt, ...(expiresAt !== null && { expiresAt }), ...content };
}

function itemView({ key, bytes, value, ...metadata }: ValueItem): JsonObject {
  if (value) return { key, bytes, ...toView({ ...metadata, value }) };
  const { version, changedAt, expiresAt } = metadata;
  return { key, bytes, version, changedAt, ...(expiresAt !== null && { expiresAt }) };
}
