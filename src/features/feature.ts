import type { Command } from "commander";
import type { Audit } from "../audit/audit.ts";
import type { Config } from "../config.ts";
import type { ExecutorStats } from "../executor/executor.ts";
import type { ConsentPort } from "../host/calls/consent.ts";
import type { ApprovalPort } from "../host/catalog/approvals.ts";
import type { Directory } from "../host/directory/directory.ts";
import type { Journal } from "../host/journal/journal.ts";
import type { CallObserver, CallRetention } from "../host/journal/record.ts";
import type { GuestRequests } from "../host/serving/guest-port.ts";
import type { BuiltInServer } from "../host/serving/with-built-in.ts";
import type { OpenUpstream } from "../host/upstreams/hosted.ts";
import type { HostingStats } from "../host/upstreams/hosting.ts";
import type { FeatureRoutes, Figure } from "../http/feature-routes.ts";
import type { Log } from "../lib/log.ts";
import type { Sealer } from "../lib/seal.ts";
import type { Limits, TenantLimits } from "../limits/limits.ts";
import type { EndpointStats } from "../mcp/endpoint.ts";
import type { CallNatively } from "../mcp/protocol.ts";
import type { SocketUse } from "../network/relay-wire.ts";
import type { GivenSecrets, ReadableSecrets } from "../secrets/grants.ts";
import type { KeyRing } from "../secrets/key-ring.ts";
import type { SecretStore, Store } from "../store/store.ts";

/**
 * A part of Berth that lives in one folder and can be removed with that folder and its line in `compose/features.ts`.
 * Every command loads the descriptor, so it imports what it opens only when that is needed.
 */
export interface Feature {
  /** The name of its folder. */
  readonly name: string;
  /** Adds its commands to `berth`. */
  readonly commands?: (program: Command, kit: CommandKit) => void;
  /** Opens it in a serving process, before the first server is loaded. */
  open(core: FeatureCore): Promise<FeatureParts>;
  /** Fills an empty store from a file, for `berth serve --image FILE`, and returns the name of the tenant in it. */
  readonly fillFromFile?: (store: Store, file: string, config: Config, options: FileOptions) => Promise<string>;
  /** Adds up what ended workers have counted, in the process that starts the workers. */
  readonly sumCounts?: (all: readonly Figures[]) => Promise<Figures>;
}

export interface FileOptions {
  /** The name of the tenant, instead of the one in the file. */
  readonly as?: string;
  /** Its servers may start programs of this machine. */
  readonly programs?: boolean;
}

/** The parts of a serving process that features use. */
export interface FeatureCore {
  readonly config: Pick<Config, "explore" | "secretsDir">;
  readonly store: Store;
  readonly limits: Limits;
  readonly limitsOf: (tenant: string) => TenantLimits;
  /** False on a read-only boot. */
  readonly writable: boolean;
  /** True if this process is the one of several that does a job that only one of them does. */
  readonly isChosenFor: (job: string) => Promise<boolean>;
  /** The servers of a tenant, while it is served. */
  readonly directory: (tenant: string) => Directory | undefined;
  /** The CID of the release that a server's name stands for now. Rejects with `server_…` if it is not served. */
  readonly servedRelease: (tenant: string, server: string) => Promise<string>;
  readonly sealer: Sealer;
  readonly secrets: {
    readonly store: SecretStore;
    readonly keys: KeyRing;
    /** Values that take precedence over stored ones. */
    readonly given: GivenSecrets | undefined;
    /** Gives servers another value of a secret with their next call. */
    readonly changed: (tenant: string, name: string) => void;
  };
  /** `consent` records what happens to consents; a call with consent waits for that. */
  readonly audit: Pick<Audit, "consent" | "search" | "observer">;
  /** Opens an upstream as for the tenant `default`: with the environment of this process, and at any address. */
  readonly openUpstream: OpenUpstream;
  readonly log: Log;
  readonly measured: MeasuredParts;
}

/** The parts whose current activity can be read. */
export interface MeasuredParts {
  readonly audit: { stats(): { readonly queued: number; readonly dropped: number } };
  readonly journal: Pick<Journal, "inFlight">;
  readonly executor: { stats(): ExecutorStats };
  readonly relay: { uses(): Readonly<Record<string, SocketUse>> };
  readonly upstreams: { stats(): HostingStats };
  readonly endpoint: { stats(): EndpointStats };
  readonly store: Pick<Store, "size">;
  readonly log: Log;
}

/** The contributions of a feature to a serving process, which merges them into plain tables. */
export interface FeatureParts {
  /** The requests of guest code that it answers. */
  readonly guestRequests?: GuestRequests;
  readonly onCall?: CallObserver;
  /** Called after each compilation of a definition. */
  readonly onCompiled?: (ms: number, outcome: "ok" | "refused") => void;
  /** Drops what it has in memory of a deleted tenant. */
  readonly forget?: (tenant: string) => void;
  readonly metrics?: Meter;
  readonly consents?: ConsentPort;
  readonly approvals?: ApprovalPort;
  readonly secrets?: ReadableSecrets;
  /** A server that it adds to the tenant `default`. */
  readonly builtIn?: BuiltInServer;
  readonly retention?: CallRetention;
  readonly callNatively?: CallNatively;
  /** How an operator learns what keeps the sandbox from working, and the fix. */
  readonly sandboxHelp?: string;
  /** Ends what it has started. */
  readonly close?: () => Promise<void>;
  /**
   * Loads its API and pages, which only a process that serves HTTP needs. `figuresOfAll` returns the figures of all
   * workers, if this process is one of several.
   */
  readonly routes?: (figuresOfAll?: () => Promise<readonly Figures[]>) => Promise<FeatureRoutes>;
}

/** Measures a process. */
export interface Meter {
  /** Adds a figure, which it reads later. */
  show(figure: Figure): void;
  /** The current values. */
  now(): Promise<Figures>;
}

/** All figures of one process, as JSON that can be sent to another. */
export type Figures = readonly object[];

/** The parts of the command line that features use. */
export interface CommandKit {
  /** Turns the exit code of a command, or its failure, into that of the process. */
  readonly run: (command: Promise<number>) => Promise<void>;
  readonly withStore: WithStore;
  /** The settings, with those of options. */
  readonly environment: (options: { readonly data?: string }) => NodeJS.ProcessEnv;
  /** `--data`, for commands that open the store. */
  readonly dataOption: readonly [flags: string, description: string];
}

export type WithStore = (
  /** `mayMake`: creates the store if it does not exist. */
  options: { readonly data?: string; readonly mayMake?: boolean },
  work: (store: Store, config: Config) => Promise<number>,
) => Promise<number>;
