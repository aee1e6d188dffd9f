import type { Json } from "../../lib/json.ts";
import { askHost, refuseOutsideOfCalls } from "./host.mts";
import { stateJson } from "./values.mts";

/**
 * `context.state` for the program. The host keeps the values; here they only become JSON text or base64, and back.
 * Nothing is remembered between two requests: another process may have changed it.
 */
interface Kept {
  readonly version: number;
  readonly changedAt: number;
  readonly expiresAt?: number;
  readonly json?: string;
  readonly base64?: string;
}

interface KeptItem extends Kept {
  readonly key: string;
  readonly bytes: number;
}

interface Lasting {
  readonly expiresInMs?: number;
}

interface Part {
  readonly prefix?: string;
  readonly after?: string;
  readonly limit?: number;
  readonly values?: boolean;
}

/** Each try reads what the one before lost to; only a key that many write all the time takes more. */
const TRIES_MAX = 100;

export function createState(call: number): object {
  const ask = (operation: Parameters<typeof askHost>[1], params: object): Promise<Json> => {
    refuseOutsideOfCalls(call);
    return askHost(call, operation, params) as Promise<Json>;
  };
  const entry = async (key: string) => {
    const kept = (await ask("stateGet", { key })) as unknown as Kept | null;
    return kept ? entryOf(kept) : undefined;
  };
  const put = async (key: string, value: unknown, params: object) =>
    ((await ask("stateSet", { key, ...encoded(key, value), ...params })) as number | null) ?? undefined;

  return {
    get: async (key: string) => (await entry(key))?.value,
    entry,
    set: async (key: string, value: unknown, { expiresInMs }: Lasting = {}) => put(key, value, { expiresInMs }),
    compareAndSet: async (key: string, version: number, value: unknown, { expiresInMs }: Lasting = {}) =>
      put(key, value, { expected: version, expiresInMs }),
    async update(key: string, change: (value: unknown) => unknown, { expiresInMs }: Lasting = {}) {
      for (let tries = 1; tries <= TRIES_MAX; tries++) {
        const before = await entry(key);
        const value = await change(before?.value);
        const params = { expected: before?.version ?? 0, expiresInMs };
        if ((await put(key, value, params)) !== undefined) return value;
      }
      const message = `the key ${JSON.stringify(key)} was changed by others each of the ${TRIES_MAX} times that it was read`;
      throw Object.assign(new Error(message), { transient: true });
    },
    delete: async (key: string, version?: number) => ask("stateDelete", { key, expected: version }),
    async list({ prefix, after, limit, values }: Part = {}) {
      const part = (await ask("stateList", { prefix, after, limit, values })) as unknown as {
        items: KeptItem[];
        next?: string;
      };
      const entries = part.items.map(({ key, bytes, ...kept }) =>
        values ? { key, bytes, ...entryOf(kept) } : { key, bytes, ...kept },
      );
      return { entries, ...(part.next !== undefined && { next: part.next }) };
    },
  };
}

function entryOf({ json, base64, ...facts }: Kept): { value: unknown } & Omit<Kept, "json" | "base64"> {
  const value: unknown = json === undefined ? new Uint8Array(Buffer.from(base64!, "base64")) : JSON.parse(json);
  return { value, ...facts };
}

function encoded(key: unknown, value: unknown): { json: string } | { base64: string } {
  const bytes = value instanceof ArrayBuffer ? new Uint8Array(value) : value;
  if (bytes instanceof Uint8Array) {
    return { base64: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64") };
  }
  return { json: stateJson(key, value) };
}
