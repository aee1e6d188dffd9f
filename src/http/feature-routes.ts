import type { Router } from "express";
import type { Access } from "../access/access.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { NodeRequests } from "../cluster/node-requests.ts";
import type { Contract, ToolContract } from "../contract/contract.ts";
import type { Edits } from "../edits/edits.ts";
import type { Host } from "../host/host.ts";
import type { Tenancy } from "../host/serving/tenancy.ts";
import type { Limits } from "../limits/limits.ts";
import type { Bodies } from "./body.ts";
import type { McpRouteOptions } from "./mcp-route.ts";
import type { Page, Pages, Section } from "./pages/pages.ts";
import type { ClientAccess } from "./pages/parts/credentials.ts";
import type { Route } from "./request-pipeline.ts";
import type { PageRoute, RoutedContext } from "./routed.ts";

/** The contributions of a feature to the API and the pages. */
export interface FeatureRoutes {
  readonly api?: readonly FeatureApi[];
  readonly pages?: readonly PageRoute<PageKit>[];
  /** Its entries in the main navigation, after those of the core that are for everyone. */
  readonly sections?: readonly Section[];
  /** How to add a server to clients, for the pages that show it. */
  readonly setups?: SetupsFor;
  /** Retained calls, for the page of their server. */
  readonly calls?: CallViews;
  /** URLs below `/mcp` for MCP clients, matched before those of the core. */
  readonly mcpRoute?: (kit: McpRouteKit) => Route;
  /** The names that the form of an entry suggests. */
  readonly secrets?: SecretValues;
  /** A part of the page of a new server, as a partial template and its script. */
  readonly newServer?: NewServerPart;
}

export interface NewServerPart {
  readonly partial: string;
  readonly script: string;
}

export interface SecretNames {
  /** Sorted by name; `set` is undefined for one without a value. */
  list(tenant: string): Promise<readonly { readonly name: string; readonly set: object | undefined }[]>;
}

export interface SecretValues extends SecretNames {
  /** Rejects with `read_only`, or with `name_conflict` if `isNew` and it exists. */
  set(tenant: string, name: string, value: string, options: { by: string; isNew?: boolean }): Promise<void>;
}

export interface McpRouteKit extends McpRouteOptions {
  readonly host: Host;
  readonly tenancy: Pick<Tenancy, "onEnd">;
  readonly cluster: Pick<Cluster, "id">;
  readonly errands: Pick<NodeRequests, "on" | "send">;
  readonly limits: Limits;
}

export interface CallViews {
  /** The values that `views/partials/tab-calls.hbs` shows of them; undefined for a server that retains none. */
  tab(server: ServerOfCalls, context: RoutedContext): Promise<Partial<Page> | undefined>;
  /** The call that `?call=` names, with arguments to run it again; undefined without it or them. */
  again(server: ServerOfCalls, context: RoutedContext): Promise<Partial<Page> | undefined>;
}

/** The server, or one release of it, that a page is about. */
interface ServerOfCalls {
  readonly name: string;
  readonly isPinned: boolean;
  readonly catalog: { readonly contract: Pick<Contract, "tools"> } | undefined;
}

interface FeatureApi {
  /** The path below `/api`. */
  readonly path: string;
  readonly create: (kit: FeatureApiKit) => Router;
}

export interface FeatureApiKit {
  readonly bodies: Bodies;
  readonly edits: Edits;
  readonly access: Access;
  /** Undefined without the feature `secrets`. */
  readonly secrets: SecretValues | undefined;
}

export interface PageKit {
  readonly pages: Pages;
  /** False on a read-only instance. */
  readonly writable: boolean;
}

/** Returns what `views/partials/setup.hbs` shows of each client. */
export type SetupsFor = (server: SetupFor) => readonly object[];

export interface SetupFor {
  /** The server's name, or another name for this connection. */
  readonly name: string;
  /** The whole address of the MCP endpoint. */
  readonly url: string;
  /** The tool for an example call. */
  readonly tool: Pick<ToolContract, "name" | "inputSchema"> | undefined;
  readonly access: ClientAccess;
}

/** A value for a feature to show. */
export interface Figure {
  /** A name that ends in `_total` belongs to a counter. */
  readonly name: `berth_${string}`;
  readonly help: string;
  /** Tells several values apart, such as `state`. */
  readonly label?: string;
  /** True for something that all processes on one store see alike; the others are added up. */
  readonly isShared?: boolean;
  /** The value, or one for each value of the label. */
  readonly read: () => FigureValues | Promise<FigureValues>;
}

type FigureValues = number | Readonly<Record<string, number>>;
