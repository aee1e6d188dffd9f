import { jsonBlock, type Cid } from "../cid.ts";
import type { Catalog, ServerChange } from "./catalog.ts";

/**
 * Who wants to hear of changes to a server. It knows what the watched contracts were, and tells each list that is
 * another one now. Thousands may listen to one server: what is to be told is found once for all of them.
 */
export type ChangeListener = (change: ServerChange) => void;

type Part = "tools" | "resources" | "prompts";

/** Of any server of a tenant: an updated resource, or, without a change, that it may be another one now. */
export type AnyChangeListener = (server: string, change?: ServerChange) => void;

interface Watch {
  readonly listeners: Set<ChangeListener>;
  /** The contract that the listeners know; undefined until the server is loaded. */
  known: Readonly<Record<Part, Cid>> | undefined;
  /** Updates of resources that are told at the end of the turn, each once. */
  readonly updated: Set<string>;
}

/** Updated resources of one server that wait for the end of the turn; with one more they are told at once. */
const UPDATES_MAX = 1_000;

export class Watchers {
  readonly #tenants = new Map<string, Map<string, Watch>>();
  readonly #ofAll = new Map<string, Set<AnyChangeListener>>();
  readonly #onError: (error: unknown) => void;

  /** `onError` hears of listeners that throw; the others are told all the same. */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  add(tenant: string, server: string, listener: ChangeListener): () => void {
    const servers = this.#tenants.get(tenant) ?? new Map<string, Watch>();
    this.#tenants.set(tenant, servers);
    const watch = servers.get(server) ?? { listeners: new Set(), known: undefined, updated: new Set() };
    servers.set(server, watch);
    // The same function may be added twice.
    const own: ChangeListener = (change) => listener(change);
    watch.listeners.add(own);
    return () => {
      watch.listeners.delete(own);
      if (watch.listeners.size === 0 && servers.get(server) === watch) servers.delete(server);
      if (servers.size === 0 && this.#tenants.get(tenant) === servers) this.#tenants.delete(tenant);
    };
  }

  /** For who composes something of all servers: none of them is loaded for it. */
  addToAll(tenant: string, listener: AnyChangeListener): () => void {
    const listeners = this.#ofAll.get(tenant) ?? new Set();
    this.#ofAll.set(tenant, listeners.add(listener));
    return () => {
      if (listeners.delete(listener) && listeners.size === 0) this.#ofAll.delete(tenant);
    };
  }

  /** A server is looked at anew. */
  mayBeAnother(tenant: string, server: string): void {
    for (const listener of this.#ofAll.get(tenant) ?? []) listener(server);
  }

  /** Servers of a tenant that somebody watches. */
  watched(tenant: string): string[] {
    return [...(this.#tenants.get(tenant)?.keys() ?? [])];
  }

  isKnown(tenant: string, server: string): boolean {
    return this.#tenants.get(tenant)?.get(server)?.known !== undefined;
  }

  /** Tells what of the contract is different from the one that was known before. */
  learn(tenant: string, server: string, { contract }: Catalog): void {
    const watch = this.#tenants.get(tenant)?.get(server);
    if (!watch) return;
    const { tools, resources, resourceTemplates, prompts } = contract;
    const now = {
      tools: jsonBlock(tools).cid,
      resources: jsonBlock({ resources, resourceTemplates }).cid,
      prompts: jsonBlock(prompts).cid,
    };
    const before = watch.known;
    watch.known = now;
    if (!before) return;
    for (const kind of ["tools", "resources", "prompts"] as const) {
      if (before[kind] !== now[kind]) this.#tell(watch, { kind });
    }
  }

  resourceUpdated(tenant: string, server: string, uri: string): void {
    for (const listener of this.#ofAll.get(tenant) ?? []) listener(server, { kind: "resource", uri });
    const watch = this.#tenants.get(tenant)?.get(server);
    if (!watch || watch.updated.has(uri)) return;
    if (watch.updated.size === UPDATES_MAX) this.#tellUpdated(watch);
    if (watch.updated.size === 0) setImmediate(() => this.#tellUpdated(watch));
    watch.updated.add(uri);
  }

  #tellUpdated(watch: Watch): void {
    const uris = [...watch.updated];
    watch.updated.clear();
    for (const uri of uris) this.#tell(watch, { kind: "resource", uri });
  }

  #tell(watch: Watch, change: ServerChange): void {
    for (const listener of watch.listeners) {
      try {
        listener(change);
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}
