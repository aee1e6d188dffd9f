import type { Json } from "../../lib/json.ts";
import { askHost, assertInCall } from "./host.mts";
import { stateJson } from "./values.mts";

/**
 * `context.state` for the program. The host stores the values; here they are only converted to JSON or base64, and
 * back. Nothing is cached between two requests, since another process may change the values.
 */
interface StoredValue {
  readonly version: number;
  readonly changedAt: number;
  readonly expiresAt?: number;
  readonly json?: string;
  readonly base64?: string;
}

interface StoredItem extends StoredValue {
  readonly key: string;
  readonly bytes: number;
}

interface ExpiryOptions {
  readonly expiresInMs?: number;
}

interface StateListOptions {
  readonly prefix?: string;
  readonly after?: string;
  readonly limit?: number;
  readonly values?: boolean;
}

/** Every retry reads the value that won the previous race; only a key under constant writes needs more. */
const TRIES_MAX = 100;

export function createState(call: number): object {
  const ask = (operation: Parameters<typeof askHost>[1], params: object): Promise<Json> => {
    assertInCall(call);
    return askHost(call, operation, params) as Promise<Json>;
  };
  const entry = async (key: string) => {
    const stored = (await ask("stateGet", { key })) as unknown as StoredValue | null;
    return stored ? decode(stored) : undefined;
  };
  const put = async (key: string, value: unknown, params: object) =>
    ((await ask("stateSet", { key, ...encode(key, value), ...params })) as number | null) ?? undefined;

  return {
    get: async (key: string) => (await entry(key))?.value,
    entry,
    set: async (key: string, value: unknown, { expiresInMs }: ExpiryOptions = {}) => put(key, value, { expiresInMs }),
    compareAndSet: async (key: string, version: number, value: unknown, { expiresInMs }: ExpiryOptions = {}) =>
      put(key, value, { expected: version, expiresInMs }),
    async update(key: string, change: (value: unknown) => unknown, { expiresInMs }: ExpiryOptions = {}) {
      for (let tries = 1; tries <= TRIES_MAX; tries++) {
        const before = await entry(key);
        const value = await change(before?.value);
        const params = { expected: before?.version ?? 0, expiresInMs };
        if ((await put(key, value, params)) !== undefined) return value;
      }
      const message = `the key ${JSON.stringify(key)} was changed by other calls in each of ${TRIES_MAX} attempts`;
      throw Object.assign(new Error(message), { transient: true });
    },
    delete: async (key: string, version?: number) => ask("stateDelete", { key, expected: version }),
    async list({ prefix, after, limit, values }: StateListOptions = {}) {
      const page = (await ask("stateList", { prefix, after, limit, values })) as unknown as {
        items: StoredItem[];
        next?: string;
      };
      const entries = page.items.map(({ key, bytes, ...stored }) =>
        values ? { key, bytes, ...decode(stored) } : { key, bytes, ...stored },
      );
      return { entries, ...(page.next !== undefined && { next: page.next }) };
    },
  };
}

function decode({ json, base64, ...metadata }: StoredValue): { value: unknown } & Omit<StoredValue, "json" | "base64"> {
  const value: unknown = json === undefined ? new Uint8Array(Buffer.from(base64!, "base64")) : JSON.parse(json);
  return { value, ...metadata };
}

function encode(key: unknown, value: unknown): { json: string } | { base64: string } {
  const bytes = value instanceof ArrayBuffer ? new Uint8Array(value) : value;
  if (bytes instanceof Uint8Array) {
    return { base64: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64") };
  }
  return { json: stateJson(key, value) };
}
