import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tenantLimits } from "../../src/admission/tenant-limits.ts";
import { openFeatures } from "../../src/compose/open-features.ts";
import type { Compiled, DefinitionSource } from "../../src/discover/discovery.ts";
import { compileKey, compilerCid } from "../../src/discover/key.ts";
import { createEdits } from "../../src/edits/create-edits.ts";
import type { Edits } from "../../src/edits/edits.ts";
import { openExecutor } from "../../src/executor/open-executor.ts";
import type { FeatureCore, MeasuredParts } from "../../src/features/feature.ts";
import type { ServerSummary } from "../../src/host/catalog/overview.ts";
import { Checks } from "../../src/host/checks/checks.ts";
import type { Host } from "../../src/host/host.ts";
import type { Catalog } from "../../src/host/offers/catalog.ts";
import { openHost } from "../../src/host/open-host.ts";
import { jsonBlock, rawBlock, type Cid } from "../../src/lib/cid.ts";
import { createLog } from "../../src/lib/log.ts";
import { createSealer } from "../../src/lib/seal.ts";
import { defaultLimits, type Limits } from "../../src/limits/limits.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { compile } from "./compiler.ts";

/** A host with a real store, compiler and executor, for definitions given as text by the server's name. */
export interface Hosted {
  readonly host: Host;
  readonly store: Store;
  readonly edits: Edits;
  catalog(server: string): Promise<Catalog>;
  /** Gives a server another definition, and has the host read its names again. */
  define(server: string, text: string): Promise<void>;
  /** Sets the variable `mcps`, and has the host read it again. */
  configure(mcps: unknown): Promise<void>;
  /** As `define`, without telling the host. */
  change(server: string, text: string): Promise<void>;
  /** Closes and reopens everything except the store's data. */
  restart(options?: { writable?: boolean; compiler?: Compiler }): Promise<void>;
  close(): Promise<void>;
}

/** A replacement for Berth's own compiler. */
export interface Compiler {
  readonly identity: Cid;
  compile(source: DefinitionSource): Promise<Compiled>;
}

const TENANT = "default";

const own: Compiler = { identity: compilerCid(), compile };

export async function openHosted(
  texts: Readonly<Record<string, string>>,
  overrides: Partial<Limits> = {},
  watched: (store: Store) => Store = (store) => store,
  mode: "sandboxed" | "trusted" = "trusted",
): Promise<Hosted> {
  const dataDir = await mkdtemp(join(tmpdir(), "berth-hosted-"));
  const open = async (writable: boolean, compiler: Compiler = own) => {
    const store = watched(await openSqliteStore({ dataDir }));
    const executor = await openExecutor({ mode, limits: { ...defaultLimits, guestSpareProcesses: 0 } });
    const checks = new Checks(defaultLimits);
    const limits = { ...defaultLimits, ...overrides };
    const log = createLog("silent");
    const { guestRequests, consents, approvals } = await openFeatures({
      config: { explore: false, secretsDir: undefined },
      store,
      limits,
      limitsOf: () => tenantLimits(limits),
      writable,
      isChosenFor: async () => false,
      directory: () => undefined,
      servedRelease: async (tenant, server) => (await host.server(tenant, server)).release,
      sealer: createSealer([randomBytes(32)]),
      secrets: {} as FeatureCore["secrets"],
      audit: { consent: async () => {} } as never,
      openUpstream: undefined as never,
      log,
      measured: {} as MeasuredParts,
    });
    const hosting = {
      store,
      consents,
      approvals,
      executor,
      checks,
      compile: (source: DefinitionSource) => compiler.compile(source),
      compileKey: (definition: Cid, source: Parameters<typeof compileKey>[1], identity = compiler.identity) =>
        compileKey(definition, source, identity),
      compiler: compiler.identity,
      log,
      writable,
      limits,
      guestRequests,
    };
    const host = await openHost([TENANT], hosting);
    return { store, executor, checks, host, edits: createEdits({ ...hosting, host }) };
  };
  let parts = await open(true);
  const closeParts = async (): Promise<void> => {
    await parts.executor.close();
    await parts.checks.close();
    await parts.store.close();
  };
  const hosted: Hosted = {
    get host() {
      return parts.host;
    },
    get store() {
      return parts.store;
    },
    get edits() {
      return parts.edits;
    },
    catalog: async (server) => parts.host.server(TENANT, server),
    async define(server, text) {
      await hosted.change(server, text);
      await parts.host.reload(TENANT);
    },
    async configure(mcps) {
      const value = rawBlock(JSON.stringify(mcps));
      const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
      await parts.store.change(TENANT, { by: "test", put: [value], set });
      await parts.host.reload(TENANT);
    },
    async change(server, text) {
      const definition = rawBlock(text);
      const record = jsonBlock({ definition: definition.cid, enabled: true });
      const set = [{ kind: "server", name: server, cid: record.cid }] as const;
      await parts.store.change(TENANT, { by: "test", put: [definition, record], set });
    },
    async restart({ writable = true, compiler } = {}) {
      await closeParts();
      parts = await open(writable, compiler);
    },
    async close() {
      await closeParts();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
  for (const [server, text] of Object.entries(texts)) await hosted.define(server, text);
  return hosted;
}

/** Every server, each with its state. */
export async function summariesOf({ host }: Pick<Hosted, "host">): Promise<ServerSummary[]> {
  const summaries: ServerSummary[] = [];
  for (const name of host.names(TENANT)) summaries.push((await host.summary(TENANT, name))!);
  return summaries;
}
