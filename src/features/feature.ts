import type { Command } from "commander";
import type { Config } from "../config.ts";
import type { Directory } from "../host/directory/directory.ts";
import type { GuestRequests } from "../host/serving/guest-port.ts";
import type { FeatureRoutes } from "../http/feature-routes.ts";
import type { Limits, TenantLimits } from "../limits/limits.ts";
import type { Store } from "../store/store.ts";

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
}

/** The parts of a serving process that features use. */
export interface FeatureCore {
  readonly store: Store;
  readonly limits: Limits;
  readonly limitsOf: (tenant: string) => TenantLimits;
  /** False on a read-only boot. */
  readonly writable: boolean;
  /** The servers of a tenant, while it is served. */
  readonly directory: (tenant: string) => Directory | undefined;
}

/** The contributions of a feature to a serving process, which merges them into plain tables. */
export interface FeatureParts {
  /** The requests of guest code that it answers. */
  readonly guestRequests?: GuestRequests;
  /** Loads its API and pages, which only a process that serves HTTP needs. */
  readonly routes?: () => Promise<FeatureRoutes>;
}

/** The parts of the command line that features use. */
export interface CommandKit {
  /** Turns the exit code of a command, or its failure, into that of the process. */
  readonly run: (command: Promise<number>) => Promise<void>;
  readonly withStore: WithStore;
  /** `--data`, for commands that open the store. */
  readonly dataOption: readonly [flags: string, description: string];
}

export type WithStore = (
  options: { readonly data?: string },
  work: (store: Store, config: Config) => Promise<number>,
) => Promise<number>;
