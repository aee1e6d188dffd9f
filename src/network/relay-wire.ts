import type { Limits } from "../limits/limits.ts";
import type { AllowedHost } from "./allow-list.ts";
import type { ListOptions } from "./network-rules.ts";
import type { PrivateHost } from "./private-hosts.ts";

/**
 * The language of the serving process and the relay: one JSON object a line. The bytes of connections never come
 * this way.
 */
export type ToRelay =
  | {
      readonly op: "begin";
      readonly limits: SocketLimits;
      readonly ownPort?: number | undefined;
      /** Every connection is told of. */
      readonly tells: boolean;
    }
  | { readonly op: "open"; readonly door: number; readonly path: string; readonly grant: SocketGrant }
  /** Ends all connections of a door, and takes no further ones. */
  | { readonly op: "close"; readonly door: number }
  /** The tenant is gone: no use of it is told any more, unless one of its name opens a door again. */
  | { readonly op: "forget"; readonly tenant: string };

export type FromRelay =
  /** Nothing that was told of the tenant's use counts. */
  | { readonly op: "forgotten"; readonly tenant: string }
  /** The door takes connections, or `problem` says why it does not. */
  | { readonly op: "opened"; readonly door: number; readonly problem?: string }
  /** A guest asked for something, told to those who follow it. */
  | ({ readonly op: "asked"; readonly door: number } & AskedFor)
  /** The use by tenants since the relay began, of those whose use has changed. */
  | { readonly op: "used"; readonly tenants: Readonly<Record<string, SocketUse>> };

/** A connection, or a name to look up, that a guest asked for. */
export interface AskedFor {
  /** With the port, where it is a connection; as the guest wrote it. */
  readonly host: string;
  /** Until the connection was there. */
  readonly ms: number;
  /** Why it was not made. */
  readonly refused?: string;
}

export type SocketLimits = Pick<Limits, "socketBytesPerSecondPerTenant">;

/** The hosts that the sockets of one guest process may reach, and for whom. */
export interface SocketGrant {
  readonly tenant: string;
  readonly server: string;
  readonly hosts: readonly AllowedHost[];
  /** See `ListOptions`. */
  readonly privateToo: boolean;
  readonly privateHosts: readonly PrivateHost[];
  readonly requested?: ListOptions["requested"];
  readonly byOperator?: boolean;
}

export interface SocketUse {
  /** Connections that are open now. */
  readonly open: number;
  readonly opened: number;
  readonly refused: number;
  /** From guests and to them. */
  readonly sentBytes: number;
  readonly receivedBytes: number;
  /** The time that all connections were open, together. */
  readonly openMs: number;
}

/** A guest's first line on a connection to its door. */
export type Asked =
  | { readonly connect: { readonly host: string; readonly port: number } }
  | { readonly lookup: string }
  /** The hosts that may be asked for. */
  | { readonly listed: true };

/** The door's answer, one line. While a connection is wanted, the guest keeps the one open on which it asked for it. */
export type Told =
  /** The socket, in the same folder, that takes one connection, which leads to this address. */
  | { readonly socket: string; readonly address: string }
  | { readonly addresses: readonly string[] }
  | { readonly hosts: readonly AllowedHost[] }
  /** `code` is one of Node's. */
  | { readonly refused: string; readonly code: string }
  /** Later: a connection was ended that had not ended by itself; it begins with a code of Node's. */
  | { readonly ended: string };

/** The name of a door in its folder. */
export const DOOR = "door";
